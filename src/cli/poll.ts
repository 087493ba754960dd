import { lstat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Command } from 'commander';

import type { SettingsFor } from '../config/schema.ts';
import { refuseMissing } from '../app/open-reader.ts';
import { describeEvent } from '../app/messages.ts';
import { probeLock, readLockHolder } from '../lib/disk/lock.ts';
import { diskError, systemCode, unlessMissing } from '../lib/errors/disk-errors.ts';
import { EXIT_CODES, type ExitCode, MirrorError } from '../lib/errors/errors.ts';
import { becomeOwnerOf } from '../lib/process/owner.ts';
import { bindNativeCalls } from '../lib/native/file-calls.ts';
import { abortOnSignal } from '../lib/process/signals.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../lib/text/terminal-text.ts';
import { type DirectoryLayout, layoutOf } from '../mirror/store/layout.ts';
import {
  askForPoll,
  isUnnoticed,
  type PollAnswer,
  pollAnswer,
  withdrawPoll,
} from '../mirror/store/requests.ts';
import { otherInstances } from '../mirror/store/shards.ts';
import type { Outcome } from './output.ts';
import { settingsOf } from './settings-flags.ts';

/** `poll` */
export async function runPoll(command: Command): Promise<Outcome> {
  const { wait }: { wait?: true } = command.opts();
  const passes = await poll(settingsOf(command, ['directory']).settings, wait === true);
  return {
    data: { passes },
    text: () => describePasses(passes),
    exitCode: passes.reduce<ExitCode>((worst, { answer }) => worse(worst, answer), 0),
  };
}

/** A pass that was asked for. */
export interface AskedPass {
  /** The index of the instance; null where one has all. */
  readonly shardIndex: number | null;
  /** How it ended; null where that was not waited for. */
  readonly answer: PollAnswer | null;
}

/**
 * Asks the daemon for a pass, or all that share the directory where no share is given. Root goes on as the owner of the directory.
 * @param wait whether to wait until it ended
 * @throws MirrorError `daemon.absent` where none takes the request, `directory.unusable`, `disk.*`, `pass.abandoned` on a signal
 */
export async function poll(settings: SettingsFor<'directory'>, wait: boolean): Promise<AskedPass[]> {
  const { directory, shard } = settings;
  await refuseMissing(directory);
  await becomeOwnerOf(directory);
  const layouts = shard === undefined ? await instancesIn(directory) : [layoutOf(directory, shard)];
  const { signal, stopListening } = abortOnSignal();
  try {
    const asked = await Promise.allSettled(
      layouts.map(async (layout) => ({
        shardIndex: layout.shardIndex,
        answer: await askOne(layout, wait, signal),
      })),
    );
    return asked.map((each) => {
      if (each.status === 'rejected') throw each.reason;
      return each.value;
    });
  } finally {
    stopListening();
  }
}

/** The instances that work in a directory: one that has all of it, or those with shares. */
async function instancesIn(directory: string): Promise<DirectoryLayout[]> {
  const whole = layoutOf(directory);
  const shards = await otherInstances(whole);
  // Those with shares may be gone for long.
  if (shards.length === 0 || (await readLockHolder(whole.lockFile))?.isAlive === true) return [whole];
  const present: DirectoryLayout[] = [];
  for (const layout of shards) if (await isAtWork(layout)) present.push(layout);
  return present.length === 0 ? [whole] : present;
}

/**
 * Whether a process works there. Its number says so only where it is seen from here, unlike in another container: then the lock is
 * tried, which nobody minds who has it. Who may not open that waits for the daemon to take the request.
 */
async function isAtWork({ lockFile }: DirectoryLayout): Promise<boolean> {
  if ((await readLockHolder(lockFile))?.isAlive === true) return true;
  try {
    if ((await unlessMissing(lstat(lockFile))) === null) return false;
    return (await probeLock(lockFile, bindNativeCalls())) !== null;
  } catch (error) {
    if (systemCode(error) === 'EACCES') return true;
    throw diskError(error, 'looking for who works there');
  }
}

/** How often it is looked for what became of a request, in milliseconds. */
const LOOK_EVERY_MS = 200;

/** A daemon that runs takes a request within this time, in milliseconds, also where its disk is slow. */
const TAKEN_WITHIN_MS = 15_000;

/** A daemon that was seen at work is looked for again after this time, in milliseconds. */
const SEEN_FOR_MS = 1000;

/** A daemon that ended may be started again within this time, in milliseconds, and answers then. */
const BACK_WITHIN_MS = 15_000;

/** Asks one instance. @returns null where it is not waited for */
async function askOne(
  layout: DirectoryLayout,
  wait: boolean,
  signal: AbortSignal,
): Promise<PollAnswer | null> {
  if (!(await isAtWork(layout))) throw absent(layout, 'No daemon runs there.');
  const id = await askForPoll(layout, wait);
  let isTaken = false;
  try {
    await taken(layout, id, signal);
    isTaken = true;
    return wait ? await answered(layout, id, signal) : null;
  } catch (error) {
    if (!signal.aborted) throw error;
    const what = isTaken ? 'nobody waits for the pass any more' : 'no pass was asked for';
    throw new MirrorError('pass.abandoned', `Interrupted: ${what}.`, { cause: error });
  } finally {
    // What stays there, as in a folder where only the owner of a file may remove it, goes with old answers.
    if (wait || !isTaken) await withdrawPoll(layout, id).catch(() => {});
  }
}

async function taken(layout: DirectoryLayout, id: string, signal: AbortSignal): Promise<void> {
  const untilMs = performance.now() + TAKEN_WITHIN_MS;
  while (await isUnnoticed(layout, id)) {
    if (performance.now() > untilMs) throw await deaf(layout);
    await sleep(LOOK_EVERY_MS, undefined, { signal });
  }
}

async function answered(layout: DirectoryLayout, id: string, signal: AbortSignal): Promise<PollAnswer> {
  let lastSeenMs = performance.now();
  for (;;) {
    const answer = await pollAnswer(layout, id);
    if (answer !== null) return answer;
    const unseenMs = performance.now() - lastSeenMs;
    if (unseenMs > SEEN_FOR_MS && (await isAtWork(layout))) lastSeenMs = performance.now();
    else if (unseenMs > BACK_WITHIN_MS) throw absent(layout, 'The daemon ended before the pass did.');
    await sleep(LOOK_EVERY_MS, undefined, { signal });
  }
}

/** The error for who works there, and takes no requests. */
async function deaf(layout: DirectoryLayout): Promise<MirrorError> {
  const holder = await readLockHolder(layout.lockFile);
  const who = holder === null ? 'Who works there' : `Process ${holder.pid}, which works there,`;
  return new MirrorError('daemon.absent', `${who} does not take the request. (${layout.root})`, {
    hint: `It may be starting or hang, or be no daemon but a \`sync\`; \`${ownCommand('status')}\` says more.`,
  });
}

function absent({ shardIndex, root }: DirectoryLayout, what: string): MirrorError {
  const where = shardIndex === null ? root : `${root}, instance ${shardIndex}`;
  return new MirrorError('daemon.absent', `${what} (${where})`, {
    hint: `\`${ownCommand('run')}\` is the daemon; \`${ownCommand('sync')}\` makes a pass where none runs.`,
  });
}

function worse(worst: ExitCode, answer: PollAnswer | null): ExitCode {
  return answer !== null && answer.exitCode > worst ? answer.exitCode : worst;
}

/** The passes, for a person. */
export function describePasses(passes: readonly AskedPass[]): TerminalText {
  const lines = passes.map(({ shardIndex, answer }) => {
    const who = shardIndex === null ? '' : `${shardIndex}: `;
    return answer === null ? say`${who}The daemon makes a pass.` : say`${who}${describeAnswer(answer)}`;
  });
  const isIncomplete = passes.some(({ answer }) => answer?.exitCode === EXIT_CODES.incomplete);
  return joinLines([
    ...lines,
    ...(isIncomplete ? [say`\`${ownCommand('status')}\` says which targets are not done, and why.`] : []),
  ]);
}

function describeAnswer({ summary, failure }: PollAnswer): TerminalText {
  if (summary !== null) return describeEvent({ name: 'pass.finished', ...summary });
  if (failure === null) return say`The pass failed.`;
  return describeEvent({ name: 'pass.failed', trigger: 'poll', durationMs: 0, ...failure });
}
