import { MirrorError } from '../lib/errors/errors.ts';
import { printable } from '../lib/text/humanize.ts';
import { ownCommand } from '../lib/text/own-command.ts';

/** The source of a setting's value. */
export interface SettingSource {
  readonly kind: 'default' | 'file' | 'environment' | 'flag' | 'credential';
  /** The file with its line, the variable, the flag, or the credential's path; empty for a default. */
  readonly detail: string;
}

/** The source of a setting that was not given. */
export const DEFAULT_SOURCE: SettingSource = { kind: 'default', detail: '' };

/** The hint about a missing secret that the daemon has. */
export const UNIT_SECRETS =
  'A credential that only the systemd unit of the daemon has is not known here: run the command by systemd-run with the same LoadCredential=, as `workbook-mirror help systemd` shows.';

/** One problem with the settings. It never holds a secret's value. */
export interface SettingProblem {
  /** The dotted name; undefined if the problem is not about one setting, for example a file that is not YAML. */
  readonly setting: string | undefined;
  /** The source of the value; undefined if none was given. */
  readonly source: SettingSource | undefined;
  /** The expectation or the fault, without a full stop. */
  readonly message: string;
}

/**
 * All problems with the settings together: `settings.invalid` with one line a problem.
 * @param problems at least one
 * @param advice sentences for people, before the hint that every such error has
 */
export function settingsError(problems: readonly SettingProblem[], advice = ''): MirrorError {
  const count = problems.length === 1 ? 'One problem' : `${problems.length} problems`;
  const lines = problems.map((problem) => `  ${describeProblem(problem)}`);
  return new MirrorError('settings.invalid', [`${count} with the settings:`, ...lines], {
    hint: `${advice === '' ? '' : `${advice} `}\`${ownCommand('help settings')}\` describes every setting, \`${ownCommand('help five-minutes')}\` how to begin.`,
  });
}

/** An invalid value: the message describes valid ones, and leaves this one out. */
export function invalidValue(message: string): MirrorError {
  return new MirrorError('settings.invalid', message);
}

/** One line for a terminal: name, source, valid values. */
export function describeProblem({ setting, source, message }: SettingProblem): string {
  const name = setting === undefined ? undefined : printable(setting);
  const origin = source === undefined || source.kind === 'default' ? undefined : printable(source.detail);
  if (name === undefined) return origin === undefined ? message : `${origin}: ${message}`;
  return origin === undefined ? `${name}: ${message}` : `${name} (${origin}): ${message}`;
}

/** A foreign text in quotes, safe to print on a terminal, shortened. */
export function quote(text: string): string {
  return `"${printable(text.length > 80 ? `${text.slice(0, 80)}…` : text)}"`;
}
