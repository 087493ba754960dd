import { describe, expect, it } from 'vitest';

import { writeImport } from '../../../../src/server/demo/commits.ts';
import { planEdit } from '../../../../src/server/demo/writer.ts';

describe('planned edits', () => {
  it('keep the data bounded and never delete original data', () => {
    const base = ['Budget.xlsx', 'Q3/Forecast.xlsx'];
    const workbooks = new Set(base);
    const kinds = new Set<string>();
    for (let turn = 0; turn < 500; turn += 1) {
      const { kind, path } = planEdit(turn * 7, turn, [...workbooks].sort());
      kinds.add(kind);
      if (kind === 'deleted') workbooks.delete(path);
      else workbooks.add(path);
      expect(workbooks.size).toBeLessThanOrEqual(base.length + 1);
      expect([...workbooks]).toEqual(expect.arrayContaining(base));
    }
    expect(kinds.size).toBe(3);
  });

  it('add a workbook if there is none', () => {
    for (const round of [0, 1, 2])
      expect(planEdit(round, 5, [])).toEqual({ kind: 'added', path: 'Drafts/Draft.xlsx' });
  });
});

it('the input of fast-import quotes paths and counts bytes', () => {
  const changes = [{ path: 'Ü "a"\n\\.txt', content: 'ä' }] as const;
  const author = { name: 'A', email: 'a@example.com' };
  const at = new Date(1_700_000_000_999);
  const text = writeImport([{ branch: 'main', author, at, message: 'm\n', changes }]).toString('utf8');
  expect(text).toContain(String.raw`M 100644 inline "Ü \"a\"\n\\.txt"` + '\ndata 2\nä\n');
  expect(text).toContain('committer A <a@example.com> 1700000000 +0000\ndata 2\nm\n');
});
