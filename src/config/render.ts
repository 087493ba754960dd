import { stringify } from 'yaml';
import { z } from 'zod';

import { printable } from '../lib/text/humanize.ts';
import { escapedJson } from '../lib/text/terminal-text.ts';
import {
  indentOf,
  lastPart,
  sectionDescriptors,
  sectionsEntered,
  settingDescriptors,
  type SettingDescriptor,
  settingValue,
} from './descriptors.ts';
import { kindOfType } from './metadata.ts';
import { DEFAULT_SOURCE, type SettingSource } from './problems.ts';
import type { SettingSources } from './resolve.ts';
import { type Settings, settingsSchema } from './schema.ts';

/** Texts about the settings, made from the schema so that they cannot go out of step. */

const WIDTH = 100;

/** The settings as a Markdown table, for the manual. */
export function renderSettingsTable(): string {
  const rows = settingDescriptors.map(({ name, defaultText, description, defaultInput }) => {
    const isValue = defaultInput !== undefined && defaultText !== 'none';
    const cells = [`\`${name}\``, isValue ? `\`${defaultText}\`` : defaultText, description];
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  });
  return `${['| setting | default | meaning |', '| --- | --- | --- |', ...rows].join('\n')}\n`;
}

/** A settings file with everything in it: what is required filled in, all else commented out with its default. */
export function renderExample(): string {
  const lines = comment(
    'Settings of workbook-mirror. What is commented out is the default, or an example where there is none. To' +
      ' change it, remove the "#" at its start. Every setting is also a variable and a flag: service.baseUrl is' +
      ' WORKBOOK_MIRROR_SERVICE_BASE_URL and --service-base-url. A flag beats a variable, a variable this file. Durations' +
      ' are written 500ms, 90s, 5m, 2h, 1d or 1h30m. `workbook-mirror config check --config FILE` says what is wrong. A proxy and' +
      ' certificates of your own are no settings but variables: HTTPS_PROXY, HTTP_PROXY, NO_PROXY, NODE_EXTRA_CA_CERTS,' +
      ' NODE_USE_SYSTEM_CA=1.',
    '',
  );
  let previous: string | undefined;
  for (const descriptor of settingDescriptors) {
    if (!descriptor.name.includes('.')) lines.push('');
    for (const section of sectionsEntered(descriptor.name, previous)) {
      const about = sectionDescriptors.find(({ name }) => name === section)?.description ?? '';
      const indent = indentOf(section);
      lines.push(...(indent === '' ? [''] : []), ...comment(about, indent), `${indent}${lastPart(section)}:`);
    }
    previous = descriptor.name;
    // The secret itself stands for both: given together they would be refused.
    if (descriptor.fileOf === undefined) lines.push(...exampleLines(descriptor));
  }
  return `${lines.join('\n')}\n`;
}

/** The JSON Schema of the settings file, for editors and checks. */
export function renderJsonSchema(): string {
  const schema = z.toJSONSchema(settingsSchema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      // Nothing has to be in the file: the environment, flags and credentials count too.
      delete jsonSchema.required;
      if (zodSchema instanceof z.ZodObject && zodSchema !== settingsSchema) {
        // A section whose lines are all commented out is null.
        Object.assign(jsonSchema, { type: ['object', 'null'] });
      }
      if (kindOfType(zodSchema) === 'secret') Object.assign(jsonSchema, { type: 'string', writeOnly: true });
    },
  });
  return `${JSON.stringify({ title: 'Settings of workbook-mirror', ...schema }, undefined, 2)}\n`;
}

function exampleLines({ name, description, comment: more, ...descriptor }: SettingDescriptor): string[] {
  const indent = indentOf(name);
  const text = [
    `${capitalized(description)}.`,
    ...(more === undefined ? [] : [more]),
    ...(descriptor.needsRestart ? ['A change needs a restart.'] : []),
  ].join(' ');
  const value = inlineYaml(descriptor.defaultInput ?? descriptor.example);
  const mark = descriptor.need === undefined ? '#' : '';
  return [...comment(text.replaceAll('`', ''), indent), `${indent}${mark}${lastPart(name)}: ${value}`];
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Comment lines: a "#" and a space, which tells them from a setting that is commented out. */
function comment(text: string, indent: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > WIDTH) lines.push(`${indent}# ${word}`);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}

/** One setting as it is in force, fit for JSON and for printing: spelled as in the file, secrets masked. */
export interface EffectiveSetting {
  readonly value: string | number | readonly string[] | null;
  readonly source: SettingSource;
}

/** All settings as they are in force, by dotted name, secrets masked; null where nothing is set. */
export function effectiveSettings(
  settings: Settings,
  sources: SettingSources,
): Readonly<Record<string, EffectiveSetting>> {
  return Object.fromEntries(
    settingDescriptors.map((descriptor) => {
      const source = sources[descriptor.name] ?? DEFAULT_SOURCE;
      return [
        descriptor.name,
        { value: spelled(descriptor, settingValue(settings, descriptor.name)), source },
      ];
    }),
  );
}

/** All settings as they are in force as YAML, secrets masked, each with where it came from. */
export function renderEffective(settings: Settings, sources: SettingSources): string {
  const lines: string[] = [];
  let previous: string | undefined;
  const effective = effectiveSettings(settings, sources);
  for (const { name, fileOf, defaultText } of settingDescriptors) {
    const { value, source } = effective[name] ?? { value: null, source: DEFAULT_SOURCE };
    if (fileOf !== undefined && value === null) continue;
    for (const section of sectionsEntered(name, previous))
      lines.push(`${indentOf(section)}${lastPart(section)}:`);
    previous = name;
    const indented = indentOf(name) + lastPart(name);
    const note = value === null && defaultText !== 'none' ? `: ${defaultText}` : '';
    lines.push(`${indented}: ${inlineYaml(value)} # ${describeSource(source)}${note}`);
  }
  return `${lines.join('\n')}\n`;
}

function describeSource({ kind, detail }: SettingSource): string {
  return kind === 'default' ? 'default' : printable(`${kind} ${detail}`);
}

function spelled({ spell }: SettingDescriptor, value: unknown): EffectiveSetting['value'] {
  if (value !== undefined && spell !== undefined) return spell(value);
  if (Array.isArray(value)) return value.map(String);
  return typeof value === 'string' || typeof value === 'number' ? value : null;
}

/** A value as YAML on one line, in which every character shows as itself: what does not is named by its number. */
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
