import { formatListen } from '../../config/addresses.ts';
import type { Settings } from '../../config/schema.ts';
import { isLoopback } from '../../lib/http/access.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { standardOutput } from '../../lib/process/streams.ts';
import { programName } from '../../lib/text/own-command.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { Sources } from '../http/handler.ts';
import { createService } from '../http/service.ts';
import { openServedKeys, type TemporaryKeys } from './keys.ts';
import { log, logAlways, logRequest } from './log.ts';

/** The settings of a mirror of a service, as its settings file takes them. */
export function mirrorSettings(
  baseUrl: string,
  { apiKey, apiToken }: TemporaryKeys,
  mirrorDirectory: string,
): TerminalText {
  return joinLines([
    'service:',
    `  baseUrl: ${baseUrl}`,
    `  apiKey: ${apiKey}`,
    apiToken === null ? '  # apiToken: the token that this service has' : `  apiToken: ${apiToken}`,
    `directory: ${mirrorDirectory}`,
  ]);
}

/** The command that makes a key of a kind for a service. */
export function keyCommand(kind: 'personal' | 'token', directory = 'DIR'): string {
  const word = /^[\w./@:+-]+$/.test(directory)
    ? directory
    : `'${directory.replaceAll("'", String.raw`'\''`)}'`;
  return `${programName()} keys create --kind ${kind} --name NAME --serve-directory ${word}`;
}

/** A service to run. */
export interface ServeStart extends Omit<Sources, 'keys'> {
  readonly settings: Settings['serve'];
  /** Fires on the signal that ends the service. */
  readonly stop: AbortSignal;
  /** The directory that a mirror of this service would have, as a setting. */
  readonly mirrorDirectory: string;
  /** Called once it listens, before it is said to be ready. */
  readonly onListening: (baseUrl: string) => Promise<void>;
}

/**
 * Serves until the signal fires. Once it is ready, standard output gets one line, the base address.
 * @throws MirrorError `http.unusable`, and what `onListening` throws
 */
export async function serveUntilStopped({
  settings,
  stop,
  mirrorDirectory,
  ...rest
}: ServeStart): Promise<void> {
  const { directory, listen } = settings;
  const { keys, temporary, secrets } = await openServedKeys(settings, directory ?? null);
  const service = createService({
    ...rest,
    keys,
    onRequest: (info) => logRequest(info, secrets),
    onTrouble: (error) => log(`A connection could not be accepted: ${error.message}`, 'error'),
  });
  try {
    if (stop.aborted) return;
    const { baseUrl, port } = await service.listen(listen);
    log(`Listening on ${formatListen({ ...listen, port })}.`);
    const isStopped = await Promise.race([
      rest.onListening(baseUrl).then(() => false),
      untilAborted(stop).then(() => true),
    ]);
    if (isStopped) return;
    if (temporary !== null) {
      logAlways(
        'No key is set: these hold until the service stops. Settings of a mirror of it:',
        mirrorSettings(baseUrl, temporary, mirrorDirectory),
      );
      log(`Keys that last: ${keyCommand('personal', directory)}, and the same with --kind token`);
    }
    if (!(await keys()).some(({ kind }) => kind === 'token')) {
      const command = keyCommand('token', directory);
      log(`No token is set: v1 is off, and a mirror then cannot list branches. Make one: ${command}`, 'warn');
    }
    if (listen.host !== 'localhost' && !isLoopback(listen.host))
      log(
        'Other machines can reach this, and keys travel unencrypted: put a proxy with TLS in front.',
        'warn',
      );
    standardOutput.write(say`${baseUrl}\n`);
    await untilAborted(stop);
  } finally {
    await service.close();
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/**
 * Runs a service with a signal that fires on SIGINT and SIGTERM; a second one ends the process at once. SIGHUP, which asks daemons to
 * read their settings, changes nothing.
 */
export async function withStopSignal(serve: (stop: AbortSignal) => Promise<void>): Promise<void> {
  const onHangUp = (): void =>
    log('SIGHUP changes nothing here: new keys hold at once, settings from the next start on.');
  process.on('SIGHUP', onHangUp);
  try {
    await untilStopped(serve);
    log('Stopped.');
  } finally {
    process.off('SIGHUP', onHangUp);
  }
}
