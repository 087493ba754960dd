import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Stats } from 'node:fs';
import { chmod, chown, lstat, rename, stat, unlink } from 'node:fs/promises';

import { pollRequestSchema, type PollAnswer, POLL_ROUTE } from '../../app/control.ts';
import type { EventSink } from '../../app/events.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { packableBody } from '../../lib/http/buffered-body.ts';
import { type Reply, sendReply } from '../../lib/http/reply.ts';
import { bodyOf, readJson } from '../../lib/http/request-body.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import { createBoundServer, type ServerLimits } from '../../lib/http/server.ts';
import { openSocketPath } from '../../lib/net/socket-path.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import { refusal } from '../web/replies.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';

/** The longest body of a request, in bytes: names of some thousand targets. */
const LONGEST_BODY_BYTES = 1024 * 1024;

/** A command that waits for a pass sends nothing until that is over. */
const LIMITS: ServerLimits = {
  maxConnections: 64,
  timeouts: {
    headersTimeout: 10_000,
    requestTimeout: 15_000,
    keepAliveTimeout: 1000,
    connectionsCheckingInterval: 5000,
  },
  idleMs: 0,
};

/** The daemon's side of the control socket: what commands may ask it. */
export interface ControlActions {
  /** Has a pass made. @param targets null for all @returns the answer of that pass */
  readonly poll: (targets: readonly string[] | null) => Promise<PollAnswer>;
}

/**
 * Listens for commands on the control socket of a directory. Only the permissions of the socket decide who may connect: the owner, root,
 * and the group where the directory lets its group write. Where the file system has no sockets it says so once, and the daemon goes on.
 */
export async function startControlSocket(
  layout: DirectoryLayout,
  actions: ControlActions,
  emit: EventSink,
): Promise<{ readonly close: () => Promise<void> }> {
  const server = createBoundServer(LIMITS);
  server.on('request', (request, response) => {
    void handle(() => replyTo(actions, request), request, response);
  });
  try {
    const stopListening = await listen(server, layout);
    return {
      close: async () => {
        server.closeAllConnections();
        await stopListening();
      },
    };
  } catch (error) {
    emit({ name: 'control.unavailable', ...eventFailure(error) });
    return { close: () => Promise.resolve() };
  }
}

/**
 * Makes the socket under another name, and gives it its place once it has its permissions: that replaces the socket of a daemon that crashed.
 * @returns ends it
 */
async function listen(
  server: Server,
  { root, controlSocket }: DirectoryLayout,
): Promise<() => Promise<void>> {
  const made = `${controlSocket}.new`;
  await unlessMissing(unlink(made));
  const address = await openSocketPath(made);
  let own: Pick<Stats, 'ino' | 'dev'>;
  try {
    const listening = once(server, 'listening');
    server.listen(address.path);
    await listening;
    server.on('error', () => {});
    const { mode, gid } = await stat(root);
    const isOfGroup = (mode & 0o020) !== 0;
    if (isOfGroup) await chown(made, -1, gid).catch(() => {});
    await chmod(made, isOfGroup ? 0o660 : 0o600);
    own = await lstat(made);
    await rename(made, controlSocket);
  } catch (error) {
    server.close();
    await address.close();
    throw error;
  }
  return async () => {
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    // A daemon that took over a directory, or another directory in this place, has a socket of its own there.
    const present = await unlessMissing(lstat(controlSocket)).catch(() => null);
    if (present?.ino === own.ino && present.dev === own.dev) await unlink(controlSocket).catch(() => {});
    await closed;
    await address.close();
  };
}

async function handle(
  makeReply: () => Promise<Reply>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    const answered = await makeReply().catch((error: unknown) => {
      if (error instanceof RequestError) return refusal(error.status, error.message);
      throw error;
    });
    await sendReply(request, response, answered);
  } catch (error) {
    if (response.headersSent) response.destroy();
    else await sendReply(request, response, refusal(500, eventFailure(error).message)).catch(() => {});
  }
}

async function replyTo({ poll }: ControlActions, request: IncomingMessage): Promise<Reply> {
  if (request.url !== POLL_ROUTE) return refusal(404, 'There is nothing here.');
  if (request.method !== 'POST') return refusal(405, 'Only POST is answered here.');
  const wish = pollRequestSchema.safeParse(await readJson(bodyOf(request), LONGEST_BODY_BYTES));
  if (!wish.success)
    return refusal(400, `The request is not understood: ${wish.error.issues[0]?.message ?? ''}`);
  const { targets, wait } = wish.data;
  const answer = poll(targets ?? null);
  if (wait)
    return {
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: { open: () => whenAnswered(answer) },
    };
  answer.catch(() => {});
  const body = packableBody('application/json', JSON.stringify({ answer: null }));
  return { status: 200, headers: {}, body };
}

/** The body of a reply that waits. The line break is sent at once: it says that the daemon has taken the request. */
async function* whenAnswered(answer: Promise<PollAnswer>): AsyncGenerator<Uint8Array> {
  yield Buffer.from('\n');
  yield Buffer.from(JSON.stringify({ answer: await answer }));
}
