import { once } from 'node:events';

import { formatListen } from '../../config/addresses.ts';
import type { Settings } from '../../config/schema.ts';
import { isLoopback } from '../../lib/http/access.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { standardOutput } from '../../lib/process/streams.ts';
import { programName, quotedWhereNeeded } from '../../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { Sources } from '../http/handler.ts';
import { createService } from '../http/service.ts';
import { openServedKeys, type TemporaryKeys } from './keys.ts';
import { log, logAlways, logRequest } from './log.ts';

/** Settings for a mirror of this service, as lines of a settings file. */
export function mirrorSettings(baseUrl: string, { apiKey, apiToken }: TemporaryKeys): TerminalText {
  return joinLines([
    'service:',
    `  baseUrl: ${baseUrl}`,
    `  apiKey: ${apiKey}`,
    apiToken === null ? '  # apiToken: the token that this service has' : `  apiToken: ${apiToken}`,
    'directory: ./copy',
  ]);
}

/** The command that makes a key for a service. */
export function keyCommand(kind: 'personal' | 'token', directory = 'DIR'): string {
  return `${programName()} keys create --kind ${kind} --name NAME --serve-directory ${quotedWhereNeeded(directory)}`;
}

/** A service to run. */
export interface ServeStart extends Omit<Sources, 'keys'> {
  readonly settings: Settings['serve'];
  /** Fires on the signal that ends the service. */
  readonly stop: AbortSignal;
  /** Called once it listens, before it reports that it is ready. */
  readonly onListening: (baseUrl: string) => Promise<void>;
}

/**
 * Serves until the signal fires. Once it is ready, it prints one line on standard output, the base address.
 * @throws MirrorError `http.unusable`, and the errors of `onListening`
 */
export async function serveUntilStopped({ settings, stop, ...rest }: ServeStart) {
  const { directory, listen } = settings;
  const { keys, temporary, secrets } = await openServedKeys(settings);
  const service = createService({
    ...rest,
    keys,
    onRequest: (info) => logRequest(info, secrets),
    onTrouble: (error) => log(`A connection could not be accepted: ${error.message}`, 'error'),
  });
  try {
    if (stop.aborted) return;
    const stopped = once(stop, 'abort').then(() => 'stopped' as const);
    const { baseUrl, port } = await service.listen(listen);
    log(`Listening on ${formatListen({ ...listen, port })}.`);
    if ((await Promise.race([rest.onListening(baseUrl), stopped])) === 'stopped') return;
    if (temporary !== null) {
      const heading = 'No key is set: these are valid until the service stops. Settings for a mirror of it:';
      logAlways(joinLines([heading, mirrorSettings(baseUrl, temporary)]));
      log(`Keys that last: ${keyCommand('personal', directory)}, and the same with --kind token`);
    }
    if (!(await keys()).some(({ kind }) => kind === 'token')) {
      const command = keyCommand('token', directory);
      log(`No token is set: v1 is off, and a mirror then cannot list branches. Make one: ${command}`, 'warn');
    }
    if (listen.host !== 'localhost' && !isLoopback(listen.host))
      log('Other machines can reach this, and keys travel unencrypted: put a TLS proxy in front.', 'warn');
    standardOutput.write(say`${baseUrl}\n`);
    await stopped;
  } finally {
    await service.close();
  }
}

/**
 * Runs a service with a signal that fires on SIGINT and SIGTERM; a second one ends the process at once. SIGHUP, on which daemons
 * reload their settings, changes nothing.
 */
export async function withStopSignal(serve: (stop: AbortSignal) => Promise<void>): Promise<void> {
  process.on('SIGHUP', () =>
    log('SIGHUP changes nothing here: new keys are valid immediately, new settings after a restart.'),
  );
  await untilStopped(serve);
  log('Stopped.');
}
