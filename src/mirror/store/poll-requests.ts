import { randomUUID } from 'node:crypto';
import { readdir, rename, stat, unlink } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { z } from 'zod';

import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { EXIT_CODES } from '../../lib/errors/errors.ts';
import { passFailureSchema, passSummarySchema } from '../state/schemas.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './links.ts';

/**
 * Wishes for a pass now, a file each: `ID.asked` of who asks, `ID.taken` once the daemon knows of it, and `ID.answer` for who waits. So it
 * can be asked for by whoever may write there, from any container or machine. All is said by the names: the daemon may not be allowed
 * to read what another user wrote.
 */

const answerSchema = z.object({
  exitCode: z.enum(EXIT_CODES),
  /** Null where the pass failed as a whole. */
  summary: passSummarySchema.nullable(),
  failure: passFailureSchema.nullable(),
});

/** How a pass ended that was asked for. */
export type PollAnswer = z.infer<typeof answerSchema>;

const MAX_BYTES = 64 * 1024;

/** An answer that nobody fetched is removed after this time, in milliseconds. */
const ANSWER_KEPT_MS = 3_600_000;

const AWAITED = '-awaited';
const ID = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:${AWAITED})?`;
const WISH_NAME = new RegExp(`^(${ID})\\.(asked|taken)$`);
const ANSWER_NAME = new RegExp(`^${ID}\\.answer$`);

/** The file of a request in one of its states. */
function fileOf({ polls }: DirectoryLayout, id: string, state: 'asked' | 'taken' | 'answer'): string {
  return join(polls, `${id}.${state}`);
}

/**
 * Asks the daemon for a pass.
 * @param isAwaited whether an answer is to be left for who asks
 * @returns the id of the request
 * @throws MirrorError `disk.*`
 */
export async function askForPoll(layout: DirectoryLayout, isAwaited: boolean): Promise<string> {
  const id = `${randomUUID()}${isAwaited ? AWAITED : ''}`;
  await onDisk('asking for a pass', async () => {
    await refuseLinks(layout, [relative(layout.root, layout.polls)]);
    await ensureFolder(layout.polls);
    await replaceFile(fileOf(layout, id, 'asked'), '', layout.polls);
  });
  return id;
}

/** Takes a request back, with all that came of it. @throws MirrorError `disk.*` */
export async function withdrawPoll(layout: DirectoryLayout, id: string): Promise<void> {
  await onDisk('taking back a request', async () => {
    for (const state of ['asked', 'taken', 'answer'] as const)
      await unlessMissing(unlink(fileOf(layout, id, state)));
  });
}

/** Whether the daemon has not yet noticed a request. @throws MirrorError `disk.*` */
export function isUnnoticed(layout: DirectoryLayout, id: string): Promise<boolean> {
  return onDisk('looking for what became of a request', async () => {
    return (await unlessMissing(stat(fileOf(layout, id, 'asked')))) !== null;
  });
}

/** The answer to a request, which stays until it is withdrawn; null while there is none. @throws MirrorError `disk.*` */
export function pollAnswer(layout: DirectoryLayout, id: string): Promise<PollAnswer | null> {
  return onDisk('reading the answer to a request', async () => {
    return parseAnswer((await readOwnText(fileOf(layout, id, 'answer'), MAX_BYTES)) ?? '');
  });
}

/**
 * Takes all requests that stand, also those that a daemon before this one took and did not answer.
 * @returns their ids, and whether any is new
 * @throws MirrorError `disk.*`
 */
export function takePolls(
  layout: DirectoryLayout,
): Promise<{ readonly ids: readonly string[]; readonly hasNew: boolean }> {
  return onDisk('taking requests for a pass', async () => {
    await refuseLinks(layout, [relative(layout.root, layout.polls)]);
    const ids: string[] = [];
    let hasNew = false;
    for (const name of (await unlessMissing(readdir(layout.polls))) ?? []) {
      const [, id, state] = WISH_NAME.exec(name) ?? [];
      if (id === undefined) continue;
      if (state === 'asked') {
        const taken = rename(join(layout.polls, name), fileOf(layout, id, 'taken')).then(() => true);
        // Who asked may just have taken it back; and what somebody else put there keeps no other request from being taken.
        if (!(await taken.catch(() => false))) continue;
        hasNew = true;
      }
      ids.push(id);
    }
    return { ids, hasNew };
  });
}

/** Ends requests: leaves the answer for those who wait for one. @throws MirrorError `disk.*` */
export async function answerPolls(
  layout: DirectoryLayout,
  ids: readonly string[],
  answer: PollAnswer,
): Promise<void> {
  if (ids.length === 0) return;
  await onDisk('answering requests for a pass', async () => {
    await refuseLinks(layout, [relative(layout.root, layout.polls)]);
    for (const id of ids) {
      const taken = fileOf(layout, id, 'taken');
      const isAwaited = id.endsWith(AWAITED) && (await unlessMissing(stat(taken))) !== null;
      if (isAwaited)
        await replaceFile(fileOf(layout, id, 'answer'), `${JSON.stringify(answer)}\n`, layout.polls);
      await unlessMissing(unlink(taken));
    }
    await removeOldAnswers(layout.polls);
  });
}

async function removeOldAnswers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!ANSWER_NAME.test(name)) continue;
    const file = join(folder, name);
    const stats = await unlessMissing(stat(file));
    if (stats !== null && Date.now() - stats.mtimeMs > ANSWER_KEPT_MS) await unlessMissing(unlink(file));
  }
}

/** What is not of the form counts as none. */
function parseAnswer(text: string): PollAnswer | null {
  try {
    return answerSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}
