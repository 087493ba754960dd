import { z } from 'zod';

/**
 * The metadata of settings beside their types. Names, variables, flags, the help, the example file and the manual's table all
 * derive from the schema and from this.
 */

/** How a setting is written. */
export type SettingKind =
  | 'url'
  | 'secret'
  | 'duration'
  | 'size'
  | 'limit'
  | 'retention'
  | 'path'
  | 'integer'
  | 'flag'
  | 'choice'
  | 'list'
  | 'command'
  | 'state'
  | 'shard'
  | 'listen'
  | 'schedule'
  | 'timezone';

/** A part of the settings that a command needs complete. */
export type Need = 'service' | 'directory' | 'serve';

/** The metadata that all settings of one type share. */
export interface TypeFacts {
  readonly kind: SettingKind;
  /** Stands for the value in a command's help, such as `<duration>`. */
  readonly valueHint: string;
  readonly choices?: readonly string[];
  /** Whether it is a secret that may be several, one per line. */
  readonly holdsSeveral?: true;
  /** Spells a value as the file would; texts, numbers, flags and lists spell themselves. */
  spell?(this: void, value: unknown): string;
}

/** The metadata of one setting. */
export interface SettingFacts {
  /** One line, for a table and a command's help. */
  readonly description: string;
  /** More, for the example file. */
  readonly comment?: string;
  /** The default in words, where the schema has none. */
  readonly defaultText?: string;
  /** A value for the example file, where the schema has no default. */
  readonly example?: string | readonly string[];
  /** Which commands cannot do without it. */
  readonly need?: Need;
  /** Whether a change of it while the daemon runs waits for a restart. */
  readonly needsRestart?: true;
  /** The dotted name of the secret that this one names the file of: `service.apiKey` for `service.apiKeyFile`. */
  readonly fileOf?: string;
}

const typeFacts = new WeakMap<z.core.$ZodType, TypeFacts>();
const settingFacts = z.registry<SettingFacts>();

/** Makes the type of some settings. */
export function settingType<T extends z.ZodType>(
  type: T,
  facts: Omit<TypeFacts, 'spell'> & { spell?(this: void, value: z.output<T>): string },
): T {
  typeFacts.set(type, facts);
  return type;
}

/** Makes a setting of a type, with or without a default. */
export function setting<T extends z.ZodType>(type: T, facts: SettingFacts): T {
  const described = type.describe(facts.description);
  settingFacts.add(described, facts);
  return described;
}

/** Makes a section: settings below one name. The loader fills in a section that is absent. */
export function section<T extends z.core.$ZodShape>(description: string, shape: T) {
  return z.strictObject(shape).describe(description);
}

/** The metadata of a schema; undefined for a section. */
export function factsOf(schema: z.core.$ZodType): (SettingFacts & TypeFacts) | undefined {
  const own = settingFacts.get(schema);
  const shared = typeFacts.get(withoutDefault(schema));
  return own && shared ? { ...shared, ...own } : undefined;
}

/** The kind of a setting's bare type. */
export function kindOfType(type: z.core.$ZodType): SettingKind | undefined {
  return typeFacts.get(type)?.kind;
}

/** The type below "optional" and "has a default". */
function withoutDefault(schema: z.core.$ZodType): z.core.$ZodType {
  return schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional ? schema.def.innerType : schema;
}

/** A setting's default as the file would spell it. */
export function defaultOf(schema: z.core.$ZodType): unknown {
  return schema instanceof z.ZodPrefault ? schema.def.defaultValue : undefined;
}
