import { once } from 'node:events';
import type { Stats } from 'node:fs';
import { chmod, chown, lstat, rename, stat, unlink } from 'node:fs/promises';
import type { Server } from 'node:http';

import type { EventSink } from '../../app/events.ts';
import { diskError, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { createBoundServer, type ServerPatience } from '../../lib/http/server.ts';
import { openSocketPath } from '../../lib/net/socket-path.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import type { createTaskRoutes } from './task-routes.ts';

/** A command that waits for a pass sends nothing until the pass ends. */
const PATIENCE: ServerPatience = { requestMs: 15_000, idleMs: 0 };

/** Most connections at a time: few commands run at once, and each costs the daemon a file descriptor. */
const MAX_CONNECTIONS = 64;

/**
 * Listens for commands on the control socket of a directory. Only the permissions of the socket decide who may connect: the owner, root,
 * and the group if the directory is group-writable. If the file system has no sockets, it says so once, and the daemon goes on.
 * @returns a function that ends this
 */
export async function startControlSocket(
  layout: DirectoryLayout,
  routes: ReturnType<typeof createTaskRoutes>,
  emit: EventSink,
): Promise<() => Promise<void>> {
  const server = createBoundServer(PATIENCE);
  server.maxConnections = MAX_CONNECTIONS;
  server.on('request', (request, response) => {
    routes.answer(request, response).catch(() => response.destroy());
  });
  try {
    const stopListening = await listen(server, layout);
    return async () => {
      routes.close();
      server.closeAllConnections();
      await stopListening();
    };
  } catch (error) {
    const failure = diskError(error, 'making the control socket', layout.controlSocket);
    emit({ name: 'control.unavailable', ...eventFailure(failure) });
    return () => Promise.resolve();
  }
}

/**
 * Makes the socket under a temporary name, sets its permissions, and then renames it: this replaces the socket of a crashed daemon.
 * @returns a function that closes it
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
    // The path may now hold the socket of another daemon, which took over this directory or its path.
    const present = await unlessMissing(lstat(controlSocket)).catch(() => null);
    if (present?.ino === own.ino && present.dev === own.dev) await unlink(controlSocket).catch(() => {});
    await closed;
    await address.close();
  };
}
