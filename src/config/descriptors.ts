import { path, type Setting } from './kinds.ts';
import { settingsSchema } from './schema.ts';

/** The prefix of this program's environment variables. */
export const VARIABLE_PREFIX = 'WORKBOOK_MIRROR_';

/** The variable that names the file; the only one with the prefix that is no setting. */
export const CONFIG_VARIABLE = 'WORKBOOK_MIRROR_CONFIG';

/** One setting, with everything that derives from its name. */
export interface SettingDescriptor extends Setting {
  /** The dotted name, such as `service.baseUrl`. */
  readonly name: string;
  readonly environmentVariable: string;
  /** Undefined for a secret: every user of the machine can read a process's arguments. */
  readonly flag: string | undefined;
  /** The default for people: a value, `(required)`, `none`, or words. */
  readonly defaultText: string;
  readonly secret: boolean;
}

/** All settings, in the order of the schema. */
export const settingDescriptors: readonly SettingDescriptor[] = Object.entries(settingsSchema).flatMap(
  ([name, setting]) => describe(name, setting),
);

/** All settings by their dotted name. */
export const settingsByName: ReadonlyMap<string, SettingDescriptor> = new Map(
  settingDescriptors.map((descriptor) => [descriptor.name, descriptor]),
);

/** For a secret's dotted name: the setting that names a file with it. */
export function fileSettingOf(name: string): SettingDescriptor | undefined {
  return settingsByName.get(`${name}File`);
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

/** The section and the short name of a setting; `['', name]` for a setting outside of all sections. */
export function partsOf(name: string): readonly [section: string, key: string] {
  const dot = name.indexOf('.');
  return [name.slice(0, Math.max(0, dot)), name.slice(dot + 1)];
}

/** Sets the value of a setting in a settings object, by its dotted name, in a copy of its section. */
export function setValue(settings: object, name: string, value: unknown): void {
  const [section, key] = partsOf(name);
  if (section === '') Reflect.set(settings, key, value);
  else Reflect.set(settings, section, { ...Reflect.get(settings, section), [key]: value });
}

/** The value of a setting in a settings object, by its dotted name; undefined if nothing is set. */
export function settingValue(settings: object, name: string): unknown {
  const [section, key] = partsOf(name);
  return Reflect.get(section === '' ? settings : { ...Reflect.get(settings, section) }, key);
}

/** A setting; beside a secret, also the setting with the path of a file that holds it. */
function describe(name: string, setting: Setting): SettingDescriptor[] {
  const secret = setting.kind === 'secret';
  const described = {
    ...setting,
    name,
    environmentVariable: environmentVariableOf(name),
    flag: secret ? undefined : `--${kebabName(name)}`,
    defaultText: defaultText(setting),
    secret,
  };
  if (!secret) return [described];
  const description = `path of a file that holds \`${name}\``;
  return [described, ...describe(`${name}File`, { ...path, description, fileOf: name })];
}

function defaultText(facts: Setting): string {
  if (facts.need !== undefined) return '(required)';
  const text = Array.isArray(facts.default) ? facts.default.join(',') : facts.default;
  if (typeof text === 'string' && text !== '') return text;
  if (typeof text === 'number' || typeof text === 'boolean') return String(text);
  return facts.defaultText ?? 'none';
}
