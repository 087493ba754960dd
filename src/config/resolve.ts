import type { z } from 'zod';

import { fileSettingOf, kebabName, settingDescriptors, settingsByName } from './descriptors.ts';
import { hasPassword } from './addresses.ts';
import type { Layer } from './layers.ts';
import type { Need } from './metadata.ts';
import {
  DEFAULT_SOURCE,
  describeProblem,
  quote,
  type SettingProblem,
  type SettingSource,
} from './problems.ts';
import { settingsSchema, type NeedsOf, type Settings, type SettingsFor } from './schema.ts';
import type { Secret, SecretParser } from './secret.ts';
import { mergeLayers, type MergedValues, schemaInput } from './merge.ts';

/** Where each setting's value came from, by dotted name. */
export type SettingSources = Readonly<Record<string, SettingSource>>;

/** Says what is wrong with a cron expression, as "expected …"; undefined if nothing is. */
export type CheckSchedule = (expression: string) => string | undefined;

/** The arguments of {@link resolveSettings}. */
export interface ResolveRequest<T extends readonly Need[]> {
  /** The strongest first. */
  readonly layers: readonly Layer[];
  /** Whether the layers hold all that was given; otherwise nothing is called missing. */
  readonly complete: boolean;
  /** The parts that must be there. */
  readonly needs: T;
  readonly checkSchedule?: CheckSchedule | undefined;
  /** Opens a file-backed secret, or throws a MirrorError that says why not. */
  readonly openSecret: (path: string, parse: SecretParser) => Secret;
}

/** The settings, or all that is wrong with them. */
export type Resolution<T extends readonly Need[]> =
  | { readonly settings: SettingsFor<NeedsOf<T>>; readonly sources: SettingSources }
  | { readonly problems: readonly SettingProblem[] };

/** Takes each setting from the strongest layer that has it, and validates them all. */
export function resolveSettings<const T extends readonly Need[]>(request: ResolveRequest<T>): Resolution<T> {
  const merged = mergeLayers(request.layers);
  const { values } = merged;
  const built = schemaInput(values, request.openSecret);
  const problems = [...request.layers, merged, built].flatMap((part) => part.problems);
  const result = settingsSchema.safeParse(built.input);
  problems.push(...schemaProblems(result.error?.issues ?? [], values));
  problems.push(...flagPasswordProblems(values));
  problems.push(...scheduleProblems(values, problems, request.checkSchedule));
  if (request.complete) problems.push(...missingProblems(request.needs, values, problems));
  if (!result.success || problems.length > 0) return { problems };
  const settings: Settings = result.data;
  if (!hasNeeds(settings, request.needs)) throw new TypeError('a setting is missing that no one noticed');
  return { settings, sources: sourcesOf(values) };
}

function schemaProblems(issues: readonly z.core.$ZodIssue[], values: MergedValues): SettingProblem[] {
  const problems = issues.map(({ path, message }) => problemAt(path, message, values));
  // A number far out of range breaks two rules, with one message.
  const byText = new Map(problems.map((problem) => [describeProblem(problem), problem]));
  return [...byText.values()];
}

function problemAt(path: readonly PropertyKey[], message: string, values: MergedValues): SettingProblem {
  const setting = path.filter((part) => typeof part === 'string').join('.');
  const given = values.get(setting) ?? values.get(fileSettingOf(setting)?.name ?? '');
  const index = path.find((part) => typeof part === 'number');
  const value = typeof index === 'number' ? given?.value[index] : given?.value;
  return {
    setting,
    source: given?.source,
    message: typeof value === 'string' && isPrintable(setting, value) ? got(message, value) : message,
  };
}

function got(message: string, value: string): string {
  return `${message}, got ${quote(value)}`;
}

/** Whether a rejected value may be shown: an address may hold a password, wherever a mistake has put it. */
function isPrintable(setting: string, value: string): boolean {
  const descriptor = settingsByName.get(setting);
  // In place of a secret's file, people give the secret itself; the arguments of a command may be anything.
  if (descriptor === undefined || descriptor.secret || descriptor.fileOf !== undefined) return false;
  if (descriptor.kind === 'command') return false;
  if (descriptor.kind !== 'url' && descriptor.kind !== 'state') return !/:\/\/[^]*@/.test(value);
  return /^(?:[a-z]+:\/\/)?[\w./-]*$/i.test(value);
}

function flagPasswordProblems(values: MergedValues): SettingProblem[] {
  return settingDescriptors.flatMap(({ name, kind, environmentVariable }) => {
    const given = values.get(name);
    if (kind !== 'state' || given?.source.kind !== 'flag') return [];
    if (typeof given.value !== 'string' || !hasPassword(given.value)) return [];
    const message =
      'expected no password in a flag, because everybody on the machine can read it;' +
      ` use the file or the variable ${environmentVariable}`;
    return [{ setting: name, source: given.source, message }];
  });
}

function scheduleProblems(
  values: MergedValues,
  known: readonly SettingProblem[],
  check: CheckSchedule | undefined,
): SettingProblem[] {
  const given = values.get('schedule');
  if (typeof given?.value !== 'string' || known.some(({ setting }) => setting === 'schedule')) return [];
  const message = check?.(given.value.trim());
  if (message === undefined) return [];
  return [{ setting: 'schedule', source: given.source, message: got(message, given.value) }];
}

function missingProblems(
  needs: readonly Need[],
  values: MergedValues,
  known: readonly SettingProblem[],
): SettingProblem[] {
  return settingDescriptors.flatMap(({ name, need, flag, environmentVariable }) => {
    if (need === undefined || !needs.includes(need)) return [];
    const file = fileSettingOf(name);
    const names = file === undefined ? [name] : [name, file.name];
    if (names.some((either) => values.has(either) || known.some(({ setting }) => setting === either)))
      return [];
    const variables =
      file === undefined ? [environmentVariable] : [environmentVariable, file.environmentVariable];
    const ways = [
      `${names.join(' or ')} in the settings file`,
      `the variable ${variables.join(' or ')}`,
      `the flag ${flag ?? file?.flag ?? ''}`,
      ...(file === undefined ? [] : [`a systemd credential named ${kebabName(name)}`]),
    ];
    const last = ways.pop() ?? '';
    return [{ setting: name, source: undefined, message: `missing; set ${ways.join(', ')}, or ${last}` }];
  });
}

function hasNeeds<T extends readonly Need[]>(
  settings: Settings,
  needs: T,
): settings is SettingsFor<NeedsOf<T>> {
  const { service, directory } = settings;
  return needs.every((need) => {
    if (need === 'service') return service.baseUrl !== undefined && service.apiKey !== undefined;
    return need !== 'directory' || directory !== undefined;
  });
}

function sourcesOf(values: MergedValues): SettingSources {
  return Object.fromEntries(
    settingDescriptors.map(({ name }) => {
      const given = values.get(name) ?? values.get(fileSettingOf(name)?.name ?? '');
      return [name, given?.source ?? DEFAULT_SOURCE];
    }),
  );
}
