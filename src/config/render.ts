import { z } from 'zod';

import {
  indentOf,
  lastPart,
  sectionDescriptors,
  sectionsEntered,
  settingDescriptors,
  type SettingDescriptor,
} from './descriptors.ts';
import { kindOfType } from './leaf.ts';
import { settingsSchema } from './schema.ts';
import { inlineYaml } from './yaml-text.ts';

/** What is written about the settings outside of the program, made from the schema so that it cannot go out of step. */

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
