import { MirrorError } from '../lib/errors/errors.ts';
import { printable } from '../lib/text/humanize.ts';
import { ownCommand } from '../lib/text/own-command.ts';

/** Where a setting's value came from. */
export interface SettingSource {
  readonly kind: 'default' | 'file' | 'environment' | 'flag' | 'credential';
  /** The file with its line, the variable, the flag, or the credential's path; empty for a default. */
  readonly detail: string;
}

/** The source of a setting that nothing gave. */
export const DEFAULT_SOURCE: SettingSource = { kind: 'default', detail: '' };

/** One thing that is wrong with the settings. It never holds a secret's value. */
export interface SettingProblem {
  /** The dotted name; undefined where the trouble is not with one setting, such as a file that is not YAML. */
  readonly setting: string | undefined;
  /** Where the value came from; undefined if nothing gave one. */
  readonly source: SettingSource | undefined;
  /** The expectation or the fault, without a full stop. */
  readonly message: string;
}

/** All that is wrong with the settings, at once: `settings.invalid` with one line a problem. */
export class SettingsError extends MirrorError {
  readonly problems: readonly SettingProblem[];

  /**
   * @param problems at least one
   * @param advice sentences for people, before the hint that every such error has
   */
  constructor(problems: readonly SettingProblem[], advice = '') {
    const count = problems.length === 1 ? 'One problem' : `${String(problems.length)} problems`;
    const lines = problems.map((problem) => `  ${describeProblem(problem)}`);
    super('settings.invalid', [`${count} with the settings:`, ...lines], {
      hint: `${advice === '' ? '' : `${advice} `}\`${ownCommand('help settings')}\` describes every setting, \`${ownCommand('help five-minutes')}\` how to begin.`,
    });
    this.problems = problems;
  }
}

/** A value that is not one of its setting: the message says what is expected, without the value. */
export function invalidValue(message: string): MirrorError {
  return new MirrorError('settings.invalid', message);
}

/** One line for a terminal: name, source, what is expected. */
export function describeProblem({ setting, source, message }: SettingProblem): string {
  const name = setting === undefined ? undefined : printable(setting);
  const origin = source === undefined || source.kind === 'default' ? undefined : printable(source.detail);
  if (name === undefined) return origin === undefined ? message : `${origin}: ${message}`;
  return origin === undefined ? `${name}: ${message}` : `${name} (${origin}): ${message}`;
}

/** A text that somebody else wrote, in quotes, safe to print on a terminal, shortened. */
export function quote(text: string): string {
  return `"${printable(text.length > 80 ? `${text.slice(0, 80)}…` : text)}"`;
}
