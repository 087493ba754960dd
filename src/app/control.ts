import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { closing } from '../lib/concurrency/shared-work.ts';
import { readLockHolder } from '../lib/disk/lock.ts';
import { systemCode } from '../lib/errors/disk-errors.ts';
import { type ErrorCode, MirrorError } from '../lib/errors/errors.ts';
import { request } from '../lib/http/node-http.ts';
import { openSocketPath } from '../lib/net/socket-path.ts';
import { ownCommand, type ownFlags, withOwnFlags } from '../lib/text/own-command.ts';
import type { DirectoryLayout } from '../mirror/store/layout.ts';
import { type TaskName, type TaskRequest, type TaskResult, TASKS } from './tasks/table.ts';
import type { MirrorEvent } from './events.ts';
import type { TaskWork } from './tasks/task.ts';

/** The path of the route of a task. */
export function routeOf(name: string): string {
  return `/v1/${name}`;
}

/** A line of a reply: an event or a text about its progress or, at the end, the result or error of the task. */
export type ReplyLine<Result> =
  | { readonly event: MirrorEvent }
  | { readonly text: string }
  | { readonly result: Result }
  | {
      readonly error: {
        readonly code: ErrorCode;
        readonly lines: readonly string[];
        readonly hint: string | null;
        /** The flags in the commands of the hint; an older daemon does not send them. */
        readonly flags?: ReturnType<typeof ownFlags>;
      };
    };

/** Errors of connecting to a socket without a listener. */
const ABSENT_CODES: ReadonlySet<string> = new Set(['ENOENT', 'ECONNREFUSED', 'ENOTDIR']);

/** Time for a daemon to restart, in milliseconds, after which the request is repeated. */
const BACK_WITHIN_MS = 15_000;

/** The pause between two attempts to reach it, in milliseconds. */
const LOOK_EVERY_MS = 250;

/** A working daemon begins its reply within this time, in milliseconds. */
const TAKEN_WITHIN_MS = 15_000;

/** Whether a daemon listens for commands in a directory. @throws MirrorError `daemon.absent` if this user has no access to it */
export async function isDaemonListening(layout: DirectoryLayout): Promise<boolean> {
  const isConnected = await onSocket(layout, async (socketPath) => {
    const connection = connect(socketPath);
    await once(connection, 'connect').finally(() => connection.destroy());
    return true;
  });
  return isConnected ?? false;
}

/**
 * Sends a task to the daemon of a directory. If the daemon restarts before it has replied, the task is sent again,
 * unless it changes something.
 * @throws MirrorError the error of the task; `daemon.absent` if the daemon is unreachable; `pass.abandoned` if it does not return, or
 *   `signal` fires
 */
export async function askDaemon<Name extends TaskName>(
  layout: DirectoryLayout,
  name: Name,
  wish: TaskRequest<Name>,
  listeners: Pick<TaskWork, 'signal' | 'emit' | 'tell'>,
): Promise<TaskResult<Name>> {
  const { signal } = listeners;
  const { kind } = TASKS[name];
  let backUntilMs: number | null = null;
  for (;;) {
    try {
      if (backUntilMs !== null) await sleep(LOOK_EVERY_MS, undefined, { signal });
      const reply = await onSocket(layout, (socketPath) =>
        exchange<TaskResult<Name>>(layout, { socketPath, path: routeOf(name) }, wish, listeners),
      );
      if (reply !== null) return reply.result;
      if (backUntilMs === null)
        throw new MirrorError('daemon.absent', `The daemon of ${layout.root} ended before it was asked.`);
    } catch (error) {
      const rest = kind === 'read' ? '' : ' The daemon continues the work.';
      const message = `Interrupted: this command no longer waits.${rest}`;
      if (signal.aborted) throw new MirrorError('pass.abandoned', message, { cause: error });
      if (error instanceof MirrorError) throw error;
      backUntilMs ??= performance.now() + (kind === 'change' ? 0 : BACK_WITHIN_MS);
    }
    if (performance.now() < backUntilMs) continue;
    const message = `The daemon of ${layout.root} closed the connection before it replied.`;
    const hint = `It ended, or too many commands are waiting; \`${ownCommand('status')}\` shows the mirror.`;
    throw new MirrorError('pass.abandoned', message, { hint });
  }
}

/** Sends a request, passes on its progress, and reads the reply to its end. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the version in the path promises the type
async function exchange<Result>(
  layout: DirectoryLayout,
  address: { readonly socketPath: string; readonly path: string },
  wish: unknown,
  { signal, emit, tell }: Pick<TaskWork, 'signal' | 'emit' | 'tell'>,
): Promise<{ readonly result: Result }> {
  const headers = { 'content-type': 'application/json' };
  const sent = request({ ...address, signal, method: 'POST', headers, agent: false });
  sent.end(JSON.stringify(wish));
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve).on('error', reject);
    sent.setTimeout(TAKEN_WITHIN_MS, () => {
      reject(notTaken('it does not answer', layout));
      // An open connection would keep the process of the command running.
      sent.destroy();
    });
  }).finally(() => sent.setTimeout(0));
  if (response.statusCode !== 200) throw notTaken((await text(response)).trim(), layout);
  for await (const line of linesOf(response)) {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the version in the path promises the type
    const message = JSON.parse(line) as ReplyLine<Result>;
    if ('result' in message) return message;
    if ('error' in message) {
      const { code, lines, hint, flags } = message.error;
      throw new MirrorError(code, lines, { hint: hint && flags ? withOwnFlags(hint, flags) : hint });
    }
    if ('event' in message) emit(message.event);
    else tell(message.text);
  }
  throw new Error('the reply has no end');
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
    const lines = `${rest}${chunk}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

function notTaken(why: string, { root }: DirectoryLayout): MirrorError {
  return new MirrorError('daemon.absent', `The daemon of ${root} does not accept the request: ${why}`, {
    hint: 'The daemon may hang, or be of another version than the command: restart it.',
  });
}

/** Uses the socket of a directory. @returns null if no process listens @throws MirrorError `daemon.absent` if this user has no access */
async function onSocket<T>(
  { controlSocket, lockFile, root }: DirectoryLayout,
  use: (socketPath: string) => Promise<T>,
): Promise<T | null> {
  try {
    const socket = await openSocketPath(controlSocket);
    return await closing(socket, ({ path }) => use(path));
  } catch (error) {
    const code = systemCode(error) ?? '';
    if (ABSENT_CODES.has(code)) return null;
    if (code !== 'EACCES' && code !== 'EPERM') throw error;
    // A crashed daemon leaves its socket, which refuses other users as if a daemon ran.
    if ((await readLockHolder(lockFile))?.isAlive === false) return null;
    throw new MirrorError('daemon.absent', `This user may not ask the daemon in ${root}.`, {
      cause: error,
      hint: 'Run the command as the user of the daemon, as root, or, where the group may write to the directory, as a member of that group.',
    });
  }
}
