import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  badText,
  failureText,
  isUnsure,
  sortChecked,
  surpriseText,
  targetOf,
  targetText,
} from '../../../../../src/server/uploads/page/plan.js';
import { someAtOnce } from '../../../../../src/server/uploads/page/pool.js';

const repository = { id: 'id', name: 'Plans', full_name: 'Plans', url: null, takesFiles: true };
const view = { repository, branch: 'main', commitId: 'c1', path: 'sales' };
const form = { subfolder: '', isOtherBranch: false, newBranch: '', startFrom: 'main' };
const same = targetOf(view, form);
const other = targetOf(view, { ...form, isOtherBranch: true, newBranch: 'x' });

describe('the target of an upload', () => {
  it('is the branch that is seen, or a new one', () => {
    expect(targetOf(view, { ...form, subfolder: ' 2026\\q1/' })).toEqual({
      repositoryId: 'id',
      repositoryName: 'Plans',
      branch: 'main',
      isNewBranch: false,
      seenCommitId: 'c1',
      startFrom: null,
      folder: 'sales/2026/q1',
    });
    expect(targetOf(view, { ...form, isOtherBranch: true, newBranch: ' x ' })).toMatchObject({
      branch: 'x',
      isNewBranch: true,
      seenCommitId: null,
      startFrom: 'main',
    });
    const empty = targetOf(
      { ...view, branch: null, commitId: null, path: '' },
      { ...form, newBranch: 'main', startFrom: '' },
    );
    expect(empty).toMatchObject({ branch: 'main', isNewBranch: true, seenCommitId: null, startFrom: null });
    expect([targetText(same), targetText(empty)]).toEqual([
      'Plans, branch main, folder sales',
      'Plans, branch main',
    ]);
  });
});

describe('what the service says of an upload', () => {
  it('is sorted by the files of the list', () => {
    const problems = [
      { path: 'sales/a', message: 'is bad' },
      { path: 'sales/a', message: 'is worse' },
      { path: 'elsewhere', message: 'is strange' },
      { path: null, message: 'the branch is bad' },
    ];
    expect(sortChecked({ problems, replaces: ['sales/b', 'b'] }, ['a', 'b'], 'sales')).toEqual({
      problems: new Map([['a', 'is bad']]),
      general: ['is strange', 'the branch is bad'],
      replaces: new Set(['b']),
    });
  });

  it('leaves open whether a commit was made only where nobody knows', () => {
    expect([0, 408, 500, 502, 504].map(isUnsure)).toEqual([true, true, true, true, true]);
    expect([400, 401, 403, 404, 409, 413].some(isUnsure)).toBe(false);
  });

  it('never says that nothing was changed when that is not known', () => {
    const lost = { code: 'unreachable', message: 'Lost.' };
    const absent = failureText(lost, same, { kind: 'absent' });
    const unread = failureText(lost, same, { kind: 'unknown', isRead: false });
    const changed = failureText(lost, same, { kind: 'unknown', isRead: true });
    for (const text of [absent, unread, changed]) expect(text).not.toMatch(/nothing was/i);
    expect(absent).toContain('not there so far');
    expect(unread).toContain(
      'not known whether the commit was made: look at Plans, branch main, folder sales',
    );
    expect(changed).toContain('not known whether by this upload');
    expect(failureText({ code: 'moved', message: 'M.' }, same, null)).toMatch(/^M\. Nothing was overwritten/);
    expect(failureText({ code: 'moved', message: 'M.' }, other, null)).toContain('choose another name');
    expect(failureText({ code: 'unchanged', message: 'M.' }, same, null)).toContain('choose others');
    expect(failureText(lost, same, null)).toBe('Lost. Nothing was changed, and your files are still listed.');
  });

  it('counts', () => {
    expect(surpriseText(1)).toContain('1 file is there already');
    expect(surpriseText(2)).toContain('2 files are there already');
    expect(badText(1)).toBe('1 file cannot be uploaded: the list says why.');
  });
});

describe('some at once', () => {
  it('works on every item once, and never on more than its limit', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat()), fc.integer({ min: 1, max: 5 }), async (items, limit) => {
        const done: number[] = [];
        let running = 0;
        let most = 0;
        await someAtOnce(items, { limit, signal: new AbortController().signal }, async (item) => {
          running += 1;
          most = Math.max(most, running);
          await Promise.resolve();
          running -= 1;
          done.push(item);
        });
        expect(done.toSorted((left, right) => left - right)).toEqual(
          items.toSorted((left, right) => left - right),
        );
        expect(most).toBe(Math.min(limit, items.length));
      }),
    );
  });

  it('stops all at the first failure, and tells that one', async () => {
    const begun: number[] = [];
    const work = async (item: number, signal: AbortSignal): Promise<void> => {
      begun.push(item);
      if (item === 1) throw new Error('one');
      await new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopped')));
      });
    };
    const { signal } = new AbortController();
    await expect(someAtOnce([0, 1, 2, 3], { limit: 2, signal }, work)).rejects.toThrow('one');
    expect(begun).toEqual([0, 1]);
  });

  it('begins nothing more when it is stopped', async () => {
    const controller = new AbortController();
    const begun: number[] = [];
    await someAtOnce([0, 1, 2], { limit: 1, signal: controller.signal }, (item) => {
      begun.push(item);
      controller.abort();
      return Promise.resolve();
    });
    expect(begun).toEqual([0]);
  });
});
