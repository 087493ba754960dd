import { programName } from '../../lib/text/own-command.ts';
import type { Settings } from '../../config/schema.ts';
import { joinLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { RequestInfo } from '../http/service.ts';
import type { Keys } from '../http/keys.ts';
import { printable } from '../../lib/text/humanize.ts';
import { isLoopback } from '../../lib/http/access.ts';
import { requestLines } from './request-log.ts';
import type { TemporaryKeys } from './keys.ts';
import { isLogged, log, logAlways } from './log.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';

export interface ServeStart {
  readonly baseUrl: string;
  readonly own: Pick<Settings['serve'], 'directory' | 'listen'>;
  readonly keys: Keys;
  readonly temporary: TemporaryKeys | null;
  /** Where a mirror of this service would be, as a setting. */
  readonly mirrorDirectory: string;
}

/** A word as a shell takes it. */
function shellWord(text: string): string {
  return /^[\w./@:+-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** The command that makes a key of a kind for a service. */
function creation(kind: 'personal' | 'token', directory: string | undefined): string {
  const where = directory === undefined ? 'DIR' : shellWord(directory);
  return `${programName()} keys create --kind ${kind} --name NAME --serve-directory ${where}`;
}

/** The settings of a mirror of a service, as its settings file takes them. */
export function mirrorSettings({ baseUrl, temporary, mirrorDirectory }: ServeStart): TerminalText {
  return joinLines([
    'service:',
    `  baseUrl: ${baseUrl}`,
    ...(temporary === null ? [] : [`  apiKey: ${temporary.apiKey}`]),
    ...(temporary === null
      ? []
      : [
          temporary.apiToken === null
            ? '  # apiToken: the token that this service has'
            : `  apiToken: ${temporary.apiToken}`,
        ]),
    `directory: ${mirrorDirectory}`,
  ]);
}

/** Says what a service that was just started lets in, and what that leads to which nobody would expect. */
export async function tellKeys(start: ServeStart): Promise<void> {
  const { temporary, keys, own } = start;
  if (temporary !== null) {
    logAlways(
      'No key is set: these hold until the service stops. Settings of a mirror of it:',
      mirrorSettings(start),
    );
    log(describeLasting(own.directory));
  }
  if (!(await keys()).some(({ kind }) => kind === 'token')) log(describeNoToken(own.directory), 'warn');
  if (isOpen(own.listen.host)) {
    log(
      'Others than this machine can reach this, and keys travel unencrypted: put a proxy with TLS in front.',
      'warn',
    );
  }
}

/** The advice to a service without a directory of its own. */
function alsoHere(directory: string | undefined): string {
  return directory === undefined ? ' (and give that directory here, too: serve.directory)' : '';
}

/** Says how to get keys that last. */
function describeLasting(directory: string | undefined): string {
  return `Keys that last: ${creation('personal', directory)}, and the same with --kind token${alsoHere(directory)}`;
}

/** Says that v1 is off. */
export function describeNoToken(directory: string | undefined): string {
  const make = `${creation('token', directory)}${alsoHere(directory)}`;
  return `No token is set: v1 is off, and a mirror then cannot list branches. Make one: ${make}`;
}

/** Whether more than this machine reaches an address. */
function isOpen(host: string): boolean {
  return host !== 'localhost' && !isLoopback(host);
}

/** Tells of a request, as loudly as is asked for. @param secrets what must not be shown wherever it stands */
export function tellRequest(info: RequestInfo, secrets: readonly string[]): void {
  const { line, failure } = requestLines(info, secrets, isLogged('debug'));
  if (failure !== null) log(failure, 'error');
  else log(line);
}

/** The time between two reports of connections that cannot be accepted, in milliseconds: there may be thousands. */
const TROUBLE_EVERY_MS = 60_000;

/** Makes a function that reports that a connection could not be accepted. */
export function createTroubleTeller(): (error: Error) => void {
  let nextMs = -Infinity;
  return (error) => {
    if (performance.now() < nextMs) return;
    nextMs = performance.now() + TROUBLE_EVERY_MS;
    log(printable(`A connection could not be accepted: ${error.message}`), 'error');
  };
}

export interface Stop {
  /** Fires on the first SIGINT or SIGTERM; a second one ends the process at once. */
  readonly signal: AbortSignal;
  /** Whether that has fired. */
  readonly isAsked: () => boolean;
  /** Settles when that has fired. */
  readonly asked: Promise<void>;
  readonly close: () => void;
}

/**
 * Listens to signals, from now on: one that comes while the service starts must find what is under way undone or whole. SIGHUP,
 * by which daemons are asked to read their settings, changes nothing here, and ends nothing.
 */
export function listenForStop(): Stop {
  const { signal, stopListening } = abortOnSignal();
  const onHangUp = (): void => {
    log('SIGHUP changes nothing here: keys of the directory hold at once, settings from the next start on.');
  };
  process.on('SIGHUP', onHangUp);
  const asked = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  return {
    signal,
    isAsked: () => signal.aborted,
    asked,
    close: () => {
      stopListening();
      process.off('SIGHUP', onHangUp);
    },
  };
}
