import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { z } from 'zod';

import { systemCode } from '../lib/errors/disk-errors.ts';
import { EXIT_CODES, MirrorError } from '../lib/errors/errors.ts';
import { openSocketPath } from '../lib/net/socket-path.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { isTargetPath } from '../lib/paths/file-name.ts';
import { failureSchema, summarySchema } from '../mirror/pass/events.ts';
import type { DirectoryLayout } from '../mirror/store/layout.ts';

/** The path at which a command asks the daemon for a pass, by the control socket. */
export const POLL_ROUTE = '/v1/poll';

/** A wish for a pass now. */
export const pollRequestSchema = z.strictObject({
  /** Targets, as below `mirror/`, that are tried and repaired whatever they wait for; left out for all. */
  targets: z.array(z.string().refine(isTargetPath)).optional(),
  /** Whether the reply comes when the pass has ended. */
  wait: z.boolean().default(false),
});

/** The reply to a wish for a pass. */
export const pollReplySchema = z.object({
  /** How the pass ended; null where that was not waited for. */
  answer: z
    .object({
      exitCode: z.enum(EXIT_CODES),
      /** Null where the pass failed as a whole. */
      summary: summarySchema.nullable(),
      failure: failureSchema.nullable(),
    })
    .nullable(),
});

/** How a pass ended that was asked for. */
export type PollAnswer = NonNullable<z.infer<typeof pollReplySchema>['answer']>;

/** Errors of a connection to a socket at which no process listens. */
const ABSENT_CODES: ReadonlySet<string> = new Set(['ENOENT', 'ECONNREFUSED', 'ENOTDIR']);

/** A daemon that ended may be back within this time, in milliseconds, and is then asked again. */
const BACK_WITHIN_MS = 15_000;

/** The pause between two attempts to reach it, in milliseconds. */
const LOOK_EVERY_MS = 250;

/** A daemon that works begins its reply within this time, in milliseconds. */
const TAKEN_WITHIN_MS = 15_000;

/**
 * Asks the daemon that works in a directory for a pass. A daemon that ends before it has replied, and is started again, is asked again.
 * @returns null where no daemon listens
 * @throws MirrorError `daemon.absent` where it cannot be asked, or does not come back; `pass.abandoned` where `signal` fires
 */
export async function askForPoll(
  layout: DirectoryLayout,
  wish: z.input<typeof pollRequestSchema>,
  signal: AbortSignal,
): Promise<z.infer<typeof pollReplySchema> | null> {
  let backUntilMs: number | null = null;
  for (;;) {
    try {
      const reply = await post(layout, POLL_ROUTE, wish, signal);
      const parsed = reply === null ? null : pollReplySchema.safeParse(reply);
      if (parsed?.success === true) return parsed.data;
      if (parsed !== null) throw notTaken('its reply is not understood', layout);
      if (backUntilMs === null) return null;
    } catch (error) {
      if (signal.aborted) throw interrupted(error);
      if (error instanceof MirrorError) throw error;
      backUntilMs ??= performance.now() + BACK_WITHIN_MS;
    }
    if (performance.now() > backUntilMs)
      throw new MirrorError('daemon.absent', `The daemon ended before it replied. (${layout.root})`, {
        hint: `\`${ownCommand('status')}\` says how the mirror is.`,
      });
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch((error: unknown) => {
      throw interrupted(error);
    });
  }
}

function notTaken(why: string, { root }: DirectoryLayout): MirrorError {
  return new MirrorError('daemon.absent', `The daemon does not take the request: ${why} (${root})`, {
    hint: 'The daemon may hang, or be of another version than the command: restart it.',
  });
}

function interrupted(cause: unknown): MirrorError {
  const message = 'Interrupted: this command waits no more. A pass that the daemon makes goes on.';
  return new MirrorError('pass.abandoned', message, { cause });
}

/** Sends a request to the daemon. @returns its reply, which must be JSON; null where no daemon listens */
async function post(
  layout: DirectoryLayout,
  path: string,
  body: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  const { controlSocket, root } = layout;
  try {
    const socket = await openSocketPath(controlSocket);
    try {
      const headers = { 'content-type': 'application/json' };
      const sent = request({ socketPath: socket.path, method: 'POST', path, headers, agent: false, signal });
      sent.end(JSON.stringify(body));
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        sent.once('response', resolve).once('error', reject);
        sent.setTimeout(TAKEN_WITHIN_MS, () => reject(notTaken('it does not answer', layout)));
      }).finally(() => sent.setTimeout(0));
      const reply = await text(response);
      if (response.statusCode === 200) return JSON.parse(reply) as unknown;
      throw notTaken(reply.trim(), layout);
    } finally {
      await socket.close();
    }
  } catch (error) {
    const code = systemCode(error) ?? '';
    if (ABSENT_CODES.has(code)) return null;
    if (code !== 'EACCES' && code !== 'EPERM') throw error;
    throw new MirrorError('daemon.absent', `This user may not ask the daemon in ${root}.`, {
      cause: error,
      hint: 'Run the command as the user of the daemon, as root, or, where the group may write to the directory, as a member of that group.',
    });
  }
}
