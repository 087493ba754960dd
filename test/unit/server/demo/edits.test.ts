import { describe, expect, it } from 'vitest';

import { writeImport } from '../../../../src/server/demo/commits.ts';
import { EDIT_KINDS, type EditPlan, planEdit } from '../../../../src/server/demo/writer.ts';

function apply(workbooks: readonly string[], { change }: EditPlan): string[] {
  const rest = new Set(workbooks);
  if (change.kind === 'write') rest.add(change.workbook);
  else if (change.kind === 'remove') rest.delete(change.workbook);
  else {
    rest.delete(change.from);
    rest.add(change.to);
  }
  return [...rest].sort();
}

describe('planned edits', () => {
  it('keep the data bounded and never delete what was there at first', () => {
    const base = ['Budget.xlsx', 'Q3/Forecast.xlsx'];
    let workbooks = base;
    for (let turn = 0; turn < 500; turn += 1) {
      const kind = EDIT_KINDS[(turn * 7) % EDIT_KINDS.length] ?? 'modify';
      workbooks = apply(workbooks, planEdit(kind, turn, workbooks));
      expect(workbooks.length).toBeLessThanOrEqual(base.length + 4);
      const present = workbooks.map((path) => path.replace(' (reviewed)', ''));
      expect(present).toEqual(expect.arrayContaining(base));
    }
  });

  it('add a workbook where there is none to work on', () => {
    for (const kind of EDIT_KINDS) expect(planEdit(kind, 5, []).summary).toBe('added Drafts/Draft 1.xlsx');
  });

  it('never rename onto another workbook', () => {
    const plan = planEdit('rename', 0, ['a (reviewed).xlsx', 'a.xlsx']);
    expect(plan.change.kind).toBe('write');
  });
});

describe('the input of fast-import', () => {
  it('quotes paths and counts bytes', () => {
    const changes = [{ kind: 'write', path: 'Ü "a"\n\\.txt', content: 'ä' }] as const;
    const author = { name: 'A', email: 'a@example.com' };
    const at = new Date(1_700_000_000_999);
    const text = writeImport([{ branch: 'main', author, at, message: 'm\n', changes }]).toString('utf8');
    expect(text).toContain(String.raw`M 100644 inline "Ü \"a\"\n\\.txt"` + '\ndata 2\nä\n');
    expect(text).toContain('committer A <a@example.com> 1700000000 +0000\ndata 2\nm\n');
  });
});
