import { unescape } from 'node:querystring';

import type { Settings } from '../../config/schema.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { type LogLevel, standardError } from '../../lib/process/streams.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { escapedJson, say, type Shown, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { RequestInfo } from '../http/service.ts';

/** The levels, from the least to the most important. */
const WEIGHTS: readonly LogLevel[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

let settings: Settings['log'] = { level: 'info', format: 'auto' };

/** Applies the settings to the log of this process's service. */
export function openServeLog(log: Settings['log']): void {
  settings = log;
}

/**
 * A line of the log, with its line feed: the time in UTC, a mark of the level, and the text. As JSON it has the fields of
 * the daemon's log.
 * @param text a string may contain text that others wrote
 */
export function formatLine(
  format: Settings['log']['format'],
  level: LogLevel,
  text: Shown,
  at: Date,
): TerminalText {
  const time = at.toISOString();
  const mark = WEIGHTS.indexOf(level) < WEIGHTS.indexOf('warn') ? '' : '! ';
  if (format !== 'json') return say`${time} ${mark}${text}\n`;
  const line = { level, time, pid: process.pid, msg: String(say`${text}`) };
  return say`${escapedJson(JSON.stringify(line))}\n`;
}

/** Writes a line to the log of the service, on standard error, if its level is logged. @param text may contain text that others wrote */
export function log(text: string, level: LogLevel = 'info'): void {
  if (WEIGHTS.indexOf(level) >= WEIGHTS.indexOf(settings.level))
    standardError.write(formatLine(settings.format, level, text, new Date()), level);
}

/** Writes a message at every log level. */
export function logAlways(text: TerminalText): void {
  standardError.write(formatLine(settings.format, 'info', text, new Date()), 'info');
}

/** A key of this service, even a revoked one, and user and password in an address. */
const SECRETS = /(wb[pgts]_)[\w-]{8,}|[^/:@\s]+:[^/@\s]*(?=@)/g;

/** Masks secrets in a text, before and after it is decoded once, as an address in a path is encoded. */
function masked(text: string, secrets: readonly string[]): string {
  const mask = (plain: string): string => scrub(plain, secrets).replaceAll(SECRETS, '$1[hidden]');
  return mask(unescape(mask(text)));
}

/**
 * Logs a request in one line, without its query, and why the service failed to answer it.
 * @param secrets texts that must not be shown
 */
export function logRequest(
  { method, path, status, durationMs, address, error }: RequestInfo,
  secrets: readonly string[],
): void {
  const client = address === null ? '' : `, from ${address}`;
  const line = `${method} ${masked(path, secrets)} ${status} ${Math.round(durationMs)} ms${client}`;
  // A connection cut by the client is not a fault.
  const isFault = error !== undefined && systemCode(error) !== 'ECONNRESET';
  if (isFault) log(`${line}: ${masked(toMirrorError(error).message, secrets)}`, 'error');
  else log(line);
}
