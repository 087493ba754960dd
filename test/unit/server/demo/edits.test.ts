import { describe, expect, it } from 'vitest';

import { writeImport } from '../../../../src/server/demo/commits.ts';
import { EDIT_KINDS, planEdit } from '../../../../src/server/demo/writer.ts';

describe('planned edits', () => {
  it('keep the data bounded and never delete original data', () => {
    const base = ['Budget.xlsx', 'Q3/Forecast.xlsx'];
    const workbooks = new Set(base);
    for (let turn = 0; turn < 500; turn += 1) {
      const { kind, path } = planEdit(EDIT_KINDS[(turn * 7) % 3] ?? 'modify', turn, [...workbooks].sort());
      if (kind === 'delete') workbooks.delete(path);
      else workbooks.add(path);
      expect(workbooks.size).toBeLessThanOrEqual(base.length + 4);
      expect([...workbooks]).toEqual(expect.arrayContaining(base));
    }
  });

  it('add a workbook if there is none', () => {
    for (const kind of EDIT_KINDS)
      expect(planEdit(kind, 5, [])).toEqual({ kind: 'add', path: 'Drafts/Draft 1.xlsx' });
  });
});

describe('the input of fast-import', () => {
  it('quotes paths and counts bytes', () => {
    const changes = [{ path: 'Ü "a"\n\\.txt', content: 'ä' }] as const;
    const author = { name: 'A', email: 'a@example.com' };
    const at = new Date(1_700_000_000_999);
    const text = writeImport([{ branch: 'main', author, at, message: 'm\n', changes }]).toString('utf8');
    expect(text).toContain(String.raw`M 100644 inline "Ü \"a\"\n\\.txt"` + '\ndata 2\nä\n');
    expect(text).toContain('committer A <a@example.com> 1700000000 +0000\ndata 2\nm\n');
  });
});
