import { createHash, randomUUID } from 'node:crypto';
import { readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { z } from 'zod';

import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { EXIT_CODES } from '../../lib/errors/errors.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import type { Approval, Approvals } from '../plan/guard.ts';
import { passFailureSchema, passSummarySchema } from '../state/schemas.ts';
import { targetKey } from '../upstream/listing.ts';
import type { DirectoryLayout } from './layout.ts';
import { refuseLinks } from './published-tree.ts';

/**
 * Requests of people to the process that works in a directory, a small file each: approvals of held deletions, targets to retry now, and
 * passes to make now. They can be made beside a running daemon, also from another container or machine, and outlive it. A file that
 * cannot be understood, or that was never finished, requests nothing.
 */

/** Room for the names of a repository and a branch, and for the numbers of a pass. */
const MAX_BYTES = 64 * 1024;

const approvalSchema = z.object({
  target: z.object({ repositoryId: z.string(), branch: z.string() }),
  subject: z.enum(['target', 'restored', 'files', 'deselected', 'moved', 'forgotten', 'service']),
  digest: z.string().nullable(),
});

const retrySchema = z.object({ target: z.string().refine(isTargetPath) });

/** Approves a held deletion. @throws MirrorError `disk.*` */
export async function writeApproval(layout: DirectoryLayout, approval: Approval): Promise<void> {
  await writeRequest(layout, layout.approvals, targetKey(approval.target), approval);
}

/** Reads all approvals. @throws MirrorError `disk.failed` */
export async function readApprovals({ approvals }: DirectoryLayout): Promise<Approvals> {
  const found = await readRequests(approvals, approvalSchema, ({ target }) => targetKey(target));
  return new Map(found.map((approval) => [targetKey(approval.target), approval]));
}

/** Removes approvals. @throws MirrorError `disk.*` */
export async function removeApprovals(
  { approvals }: DirectoryLayout,
  used: readonly Approval[],
): Promise<void> {
  await removeRequests(
    approvals,
    used.map(({ target }) => targetKey(target)),
  );
}

/** Asks for a target to be tried now. @param target as below `mirror/`. @throws MirrorError `disk.*` */
export async function requestRetry(layout: DirectoryLayout, target: string): Promise<void> {
  await writeRequest(layout, layout.retries, target, { target });
}

/** Reads which targets are to be tried now. @throws MirrorError `disk.failed` */
export async function readRetries({ retries }: DirectoryLayout): Promise<ReadonlySet<string>> {
  const found = await readRequests(retries, retrySchema, ({ target }) => target);
  return new Set(found.map(({ target }) => target));
}

/** Removes requests for retries. @throws MirrorError `disk.*` */
export async function removeRetries({ retries }: DirectoryLayout, targets: Iterable<string>): Promise<void> {
  await removeRequests(retries, targets);
}

/** The file of the request with a key, which may have characters that no file name has. */
function requestFile(folder: string, key: string): string {
  return join(folder, `${createHash('sha256').update(key).digest('hex')}.json`);
}

async function writeRequest(
  layout: DirectoryLayout,
  folder: string,
  key: string,
  request: object,
): Promise<void> {
  await onDisk('writing a request', async () => {
    await prepareFolder(layout, folder);
    await replaceFile(requestFile(folder, key), `${JSON.stringify(request)}\n`, folder);
  });
}

async function readRequests<T>(
  folder: string,
  schema: z.ZodType<T>,
  keyOf: (request: T) => string,
): Promise<T[]> {
  return onDisk('reading requests', async () => {
    const requests: T[] = [];
    for (const name of (await unlessMissing(readdir(folder))) ?? []) {
      const file = join(folder, name);
      const request = parse(schema, await readOwnText(file, MAX_BYTES));
      // A file with another name was never finished, and would never be removed.
      if (request !== null && requestFile(folder, keyOf(request)) === file) requests.push(request);
    }
    return requests;
  });
}

async function removeRequests(folder: string, keys: Iterable<string>): Promise<void> {
  await onDisk('removing requests', async () => {
    for (const key of keys) await rm(requestFile(folder, key), { force: true });
  });
}

async function prepareFolder(layout: DirectoryLayout, folder: string): Promise<void> {
  await refuseLinks(layout, [relative(layout.root, folder)]);
  await ensureFolder(folder);
}

/** Parses a document; null where it has another form. */
function parse<T>(schema: z.ZodType<T>, text: string | null): T | null {
  try {
    return schema.parse(JSON.parse(text ?? ''));
  } catch {
    return null;
  }
}

/*
 * A request for a pass is `ID.asked` until the daemon notices it, `ID.taken` until the pass has ended, and then `ID.answer` for a command
 * that waits. The names say all: the daemon may not be allowed to read what another user wrote.
 */

const answerSchema = z.object({
  exitCode: z.enum(EXIT_CODES),
  /** Null where the pass failed as a whole. */
  summary: passSummarySchema.nullable(),
  failure: passFailureSchema.nullable(),
});

/** How a requested pass ended. */
export type PollAnswer = z.infer<typeof answerSchema>;

/** An answer that no command fetched is removed after this time, in milliseconds. */
const ANSWER_KEPT_MS = 3_600_000;

const AWAITED = '-awaited';
const ID = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:${AWAITED})?`;
const POLL_NAME = new RegExp(`^(${ID})\\.(asked|taken)$`);
const ANSWER_NAME = new RegExp(`^${ID}\\.answer$`);

/** The file of a request for a pass in one of its states. */
function pollFile({ polls }: DirectoryLayout, id: string, state: 'asked' | 'taken' | 'answer'): string {
  return join(polls, `${id}.${state}`);
}

/**
 * Asks the daemon for a pass.
 * @param isAwaited whether the daemon is to leave an answer
 * @returns the id of the request
 * @throws MirrorError `disk.*`
 */
export async function askForPoll(layout: DirectoryLayout, isAwaited: boolean): Promise<string> {
  const id = `${randomUUID()}${isAwaited ? AWAITED : ''}`;
  await onDisk('asking for a pass', async () => {
    await prepareFolder(layout, layout.polls);
    await replaceFile(pollFile(layout, id, 'asked'), '', layout.polls);
  });
  return id;
}

/** Removes a request for a pass, and its answer. @throws MirrorError `disk.*` */
export async function withdrawPoll(layout: DirectoryLayout, id: string): Promise<void> {
  await onDisk('taking back a request', async () => {
    for (const state of ['asked', 'taken', 'answer'] as const)
      await unlessMissing(unlink(pollFile(layout, id, state)));
  });
}

/** Whether the daemon has not yet noticed a request for a pass. @throws MirrorError `disk.*` */
export function isUnnoticed(layout: DirectoryLayout, id: string): Promise<boolean> {
  return onDisk('looking for what became of a request', async () => {
    return (await unlessMissing(stat(pollFile(layout, id, 'asked')))) !== null;
  });
}

/** The answer to a request for a pass, which stays until it is withdrawn; null while there is none. @throws MirrorError `disk.*` */
export function pollAnswer(layout: DirectoryLayout, id: string): Promise<PollAnswer | null> {
  return onDisk('reading the answer to a request', async () =>
    parse(answerSchema, await readOwnText(pollFile(layout, id, 'answer'), MAX_BYTES)),
  );
}

/**
 * Takes all requests for a pass, also those that an earlier daemon took and did not answer.
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
      const [, id, state] = POLL_NAME.exec(name) ?? [];
      if (id === undefined) continue;
      if (state === 'asked') {
        const taken = rename(join(layout.polls, name), pollFile(layout, id, 'taken')).then(() => true);
        // The command may just have withdrawn it; and a file that cannot be renamed must not keep others from being taken.
        if (!(await taken.catch(() => false))) continue;
        hasNew = true;
      }
      ids.push(id);
    }
    return { ids, hasNew };
  });
}

/** Ends requests for a pass: leaves the answer for commands that wait for one. @throws MirrorError `disk.*` */
export async function answerPolls(
  layout: DirectoryLayout,
  ids: readonly string[],
  answer: PollAnswer,
): Promise<void> {
  if (ids.length === 0) return;
  await onDisk('answering requests for a pass', async () => {
    await refuseLinks(layout, [relative(layout.root, layout.polls)]);
    for (const id of ids) {
      const taken = pollFile(layout, id, 'taken');
      const isAwaited = id.endsWith(AWAITED) && (await unlessMissing(stat(taken))) !== null;
      if (isAwaited)
        await replaceFile(pollFile(layout, id, 'answer'), `${JSON.stringify(answer)}\n`, layout.polls);
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
