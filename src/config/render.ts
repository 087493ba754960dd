import { stringify } from 'yaml';

import { printable } from '../lib/text/humanize.ts';
import { escapedJson } from '../lib/text/terminal-text.ts';
import { partsOf, settingDescriptors, settingValue, setValue } from './descriptors.ts';
import type { SettingSources } from './layers.ts';
import { DEFAULT_SOURCE, type SettingSource } from './problems.ts';
import { sections, type Settings } from './schema.ts';

/** The JSON Schema of the settings file, for editors and checks. Nothing is required in it: variables, flags and credentials count too. */
export function renderJsonSchema(): string {
  const properties: object = {};
  for (const { name, description, default: value, json } of settingDescriptors)
    setValue(properties, name, { description, ...(value === undefined ? {} : { default: value }), ...json });
  for (const [name, description] of Object.entries(sections)) {
    const members: unknown = Reflect.get(properties, name);
    // A section whose lines are all commented out is null.
    const type = ['object', 'null'];
    setValue(properties, name, { type, properties: members, additionalProperties: false, description });
  }
  const schema = {
    title: 'Settings of workbook-mirror',
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties,
    additionalProperties: false,
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

/** The present values of all settings, by dotted name, ready for JSON: spelled as in the file, secrets masked; null if nothing is set. */
export function effectiveSettings(
  settings: Settings,
  sources: SettingSources,
): Readonly<Record<string, { readonly value: unknown; readonly source: SettingSource }>> {
  return Object.fromEntries(
    settingDescriptors.map(({ name, spell }) => {
      const value = settingValue(settings, name);
      const spelled = value === undefined || spell === undefined ? value : spell(value);
      return [name, { value: spelled ?? null, source: sources[name] ?? DEFAULT_SOURCE }];
    }),
  );
}

/** The present values of all settings as YAML, secrets masked, each with its source. */
export function renderEffective(settings: Settings, sources: SettingSources): string {
  const lines: string[] = [];
  const effective = effectiveSettings(settings, sources);
  let previous = '';
  for (const { name, fileOf, defaultText } of settingDescriptors) {
    const { value, source } = effective[name] ?? { value: null, source: DEFAULT_SOURCE };
    if (fileOf !== undefined && value === null) continue;
    const [section, key] = partsOf(name);
    if (section !== previous && section !== '') lines.push(`${section}:`);
    previous = section;
    const note = value === null && defaultText !== 'none' ? `: ${defaultText}` : '';
    const indent = section === '' ? '' : '  ';
    lines.push(`${indent}${key}: ${inlineYaml(value)} # ${describeSource(source)}${note}`);
  }
  return `${lines.join('\n')}\n`;
}

function describeSource({ kind, detail }: SettingSource): string {
  return kind === 'default' ? 'default' : printable(`${kind} ${detail}`);
}

/** A value as YAML on one line; characters that do not show as themselves become numbers. */
export function inlineYaml(value: unknown): string {
  const text = stringify(value, {
    collectionStyle: 'flow',
    flowCollectionPadding: false,
    lineWidth: 0,
    singleQuote: true,
    blockQuote: false,
  }).replace(/\n$/, '');
  // JSON is YAML, too (YAML 1.2.2, section 1.3).
  return printable(text) === text ? text : String(escapedJson(JSON.stringify(value)));
}
