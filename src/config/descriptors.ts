import { z } from 'zod';

import {
  defaultOf,
  factsOf,
  type Need,
  type SettingFacts,
  type SettingKind,
  type TypeFacts,
} from './metadata.ts';
import { settingsSchema } from './schema.ts';

/** Every environment variable of this program starts so. */
export const VARIABLE_PREFIX = 'WORKBOOK_MIRROR_';

/** The variable that names the file; the only one with the prefix that is no setting. */
export const CONFIG_VARIABLE = 'WORKBOOK_MIRROR_CONFIG';

/** One setting, with all that derives from its name. */
export interface SettingDescriptor {
  /** The dotted name, such as `service.baseUrl`. */
  readonly name: string;
  readonly environmentVariable: string;
  /** Undefined for a secret: everybody on the machine can read a process's arguments. */
  readonly flag: string | undefined;
  /** One line; may hold Markdown code marks. */
  readonly description: string;
  readonly comment: string | undefined;
  /** The default as the file would spell it; undefined if there is none. */
  readonly defaultInput: unknown;
  /** The default for people: a value, `(required)`, `none`, or words. */
  readonly defaultText: string;
  readonly kind: SettingKind;
  readonly secret: boolean;
  /** Whether it is a secret that may be several, one per line. */
  readonly holdsSeveral: boolean;
  readonly valueHint: string;
  readonly choices: readonly string[] | undefined;
  /** A value for the example file, where there is no default. */
  readonly example: string | readonly string[] | undefined;
  /** Which part of the settings is incomplete without it. */
  readonly need: Need | undefined;
  /** Whether a change of it while the daemon runs waits for a restart. */
  readonly needsRestart: boolean;
  /** For `service.apiKeyFile`: `service.apiKey`, the secret that is in the file. */
  readonly fileOf: string | undefined;
  readonly spell: TypeFacts['spell'];
}

/** A section of the settings. */
export interface SectionDescriptor {
  readonly name: string;
  readonly description: string;
}

const sections: SectionDescriptor[] = [];
const settings: SettingDescriptor[] = [];
for (const [key, schema] of Object.entries(settingsSchema.shape)) collect(key, schema);

/** All settings, in the order of the schema. */
export const settingDescriptors: readonly SettingDescriptor[] = settings;

/** All sections, in the order of the schema. */
export const sectionDescriptors: readonly SectionDescriptor[] = sections;

/** All settings by their dotted name. */
export const settingsByName: ReadonlyMap<string, SettingDescriptor> = new Map(
  settings.map((descriptor) => [descriptor.name, descriptor]),
);

const fileSettings: ReadonlyMap<string | undefined, SettingDescriptor> = new Map(
  settings.filter(({ fileOf }) => fileOf !== undefined).map((descriptor) => [descriptor.fileOf, descriptor]),
);

/** For a secret's dotted name: the setting that names a file with it. */
export function fileSettingOf(name: string): SettingDescriptor | undefined {
  return fileSettings.get(name);
}

/** A dotted name in kebab case: its flag without dashes, and the name of its systemd credential. */
export function kebabName(name: string): string {
  return name
    .replaceAll(/[A-Z]/g, (letter) => `-${letter}`)
    .replaceAll('.', '-')
    .toLowerCase();
}

/** The environment variable of a setting. @param name dotted */
export function environmentVariableOf(name: string): string {
  return VARIABLE_PREFIX + kebabName(name).replaceAll('-', '_').toUpperCase();
}

/** The flag of a setting. @param name dotted */
export function flagOf(name: string): string {
  return `--${kebabName(name)}`;
}

/** The indentation of a setting, or of a section, in a file. */
export function indentOf(name: string): string {
  return '  '.repeat(name.split('.').length - 1);
}

/** The name of a setting, or of a section, within its section. */
export function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

/** The sections that a setting is in, the outermost first. */
function sectionsOf(name: string): readonly string[] {
  const parts = name.split('.');
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join('.'));
}

/** The sections that begin with a setting where the one before it is another one, the outermost first. */
export function sectionsEntered(name: string, previous: string | undefined): readonly string[] {
  const left = new Set(previous === undefined ? [] : sectionsOf(previous));
  return sectionsOf(name).filter((section) => !left.has(section));
}

/** The value of a setting in a settings object, by its dotted name; undefined where nothing is set. */
export function settingValue(settings: object, name: string): unknown {
  let value: unknown = settings;
  for (const part of name.split('.')) {
    value = isRecord(value) ? value[part] : undefined;
  }
  return value;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function collect(key: string, schema: z.core.$ZodType): void {
  const facts = factsOf(schema);
  if (facts !== undefined) {
    settings.push(describe(key, schema, facts));
    return;
  }
  if (!(schema instanceof z.ZodObject)) throw new TypeError(`neither a setting nor a section: ${key}`);
  sections.push({ name: key, description: schema.description ?? '' });
  for (const [name, member] of Object.entries(schema.shape)) collect(`${key}.${name}`, member);
}

function describe(
  name: string,
  schema: z.core.$ZodType,
  facts: NonNullable<ReturnType<typeof factsOf>>,
): SettingDescriptor {
  const isSecret = facts.kind === 'secret';
  const defaultInput = defaultOf(schema);
  return {
    name,
    environmentVariable: environmentVariableOf(name),
    flag: isSecret ? undefined : flagOf(name),
    description: facts.description,
    comment: facts.comment,
    defaultInput,
    defaultText: defaultText(facts, defaultInput),
    kind: facts.kind,
    secret: isSecret,
    holdsSeveral: facts.holdsSeveral === true,
    valueHint: facts.valueHint,
    choices: facts.choices,
    example: facts.example,
    need: facts.need,
    needsRestart: facts.needsRestart === true,
    fileOf: facts.fileOf,
    spell: facts.spell,
  };
}

function defaultText(facts: SettingFacts, input: unknown): string {
  if (facts.need !== undefined) return '(required)';
  const text = Array.isArray(input) ? input.join(',') : input;
  if (typeof text === 'string' && text !== '') return text;
  if (typeof text === 'number') return String(text);
  return facts.defaultText ?? 'none';
}
