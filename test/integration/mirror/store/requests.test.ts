import { mkdir, readdir, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it } from 'vitest';

import { type DirectoryLayout, layoutOf } from '../../../../src/mirror/store/layout.ts';
import {
  answerPolls,
  askForPoll,
  isUnnoticed,
  type PollAnswer,
  pollAnswer,
  takePolls,
  withdrawPoll,
} from '../../../../src/mirror/store/requests.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const FAILED: PollAnswer = {
  exitCode: 3,
  summary: null,
  failure: { code: 'service.unreachable', message: 'gone', hint: null },
};

describe('requests for a pass', () => {
  let layout: DirectoryLayout;

  beforeEach(async () => {
    layout = layoutOf(await temporaryFolder());
    await mkdir(layout.internal);
  });

  it('are taken once as new, and stay until they are answered', async () => {
    const id = await askForPoll(layout, true);
    expect(await isUnnoticed(layout, id)).toBe(true);
    expect(await takePolls(layout)).toEqual({ ids: [id], hasNew: true });
    expect(await isUnnoticed(layout, id)).toBe(false);
    expect(await takePolls(layout)).toEqual({ ids: [id], hasNew: false });
    expect(await pollAnswer(layout, id)).toBeNull();
    await answerPolls(layout, [id], FAILED);
    expect(await pollAnswer(layout, id)).toEqual(FAILED);
    expect(await takePolls(layout)).toEqual({ ids: [], hasNew: false });
    await withdrawPoll(layout, id);
    expect(await readdir(layout.polls)).toEqual([]);
  });

  it('for which nobody waits get no answer', async () => {
    const id = await askForPoll(layout, false);
    await takePolls(layout);
    await answerPolls(layout, [id], FAILED);
    expect(await readdir(layout.polls)).toEqual([]);
  });

  it('that are withdrawn meanwhile get none', async () => {
    const id = await askForPoll(layout, true);
    await takePolls(layout);
    await withdrawPoll(layout, id);
    await answerPolls(layout, [id], FAILED);
    expect(await readdir(layout.polls)).toEqual([]);
  });

  it('are none of what others put there, and old answers go', async () => {
    await mkdir(layout.polls);
    const strange = ['x', '../x.asked', 'x.asked', '.asked'].map((name) => name.replaceAll('/', '_'));
    for (const name of strange) await writeFile(join(layout.polls, name), 'x');
    const old = '00000000-0000-4000-8000-000000000000.answer';
    await writeFile(join(layout.polls, old), '{}');
    await utimes(join(layout.polls, old), 1, 1);
    const id = await askForPoll(layout, false);
    await writeFile(join(layout.polls, `${id}.asked`), 'whatever');
    expect((await takePolls(layout)).ids).toEqual([id]);
    await answerPolls(layout, [id], FAILED);
    expect((await readdir(layout.polls)).sort()).toEqual(strange.toSorted());
  });

  it('are not written through a link', async () => {
    const elsewhere = await temporaryFolder();
    await symlink(elsewhere, layout.polls);
    await expect(askForPoll(layout, true)).rejects.toMatchObject({ code: 'disk.changed' });
    expect(await readdir(elsewhere)).toEqual([]);
  });
});
