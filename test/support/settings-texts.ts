import { partsOf, settingDescriptors } from '../../src/config/descriptors.ts';
import { sections } from '../../src/config/schema.ts';
import type { SettingDescriptor } from '../../src/config/descriptors.ts';
import { inlineYaml } from '../../src/config/render.ts';

/** Texts about the settings, generated from the schema. Tests compare files with them, and write them with -u. */

const WIDTH = 100;

/** The settings as a Markdown table for the manual, which names the files of secrets in a sentence. */
export function renderSettingsTable(): string {
  const described = settingDescriptors.filter(({ fileOf }) => fileOf === undefined);
  const rows = described.map(({ name, defaultText, description, default: value }) => {
    const isValue = value !== undefined && defaultText !== 'none';
    const cells = [`\`${name}\``, isValue ? `\`${defaultText}\`` : defaultText, description];
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  });
  return `${['| setting | default | meaning |', '| --- | --- | --- |', ...rows].join('\n')}\n`;
}

/** A complete settings file: required settings filled in, others commented out with their defaults. */
export function renderExample(): string {
  const lines = comment(
    'Settings of workbook-mirror. Lines such as "#timeout: 2m" show the default, or an example if there is none. To' +
      ' change it, remove the "#" at its start. Every setting is also a variable and a flag: service.baseUrl is' +
      ' WORKBOOK_MIRROR_SERVICE_BASE_URL and --service-base-url. Flags win over variables, and variables over this' +
      ' file. Durations: 500ms, 90s, 5m, 2h, 1d, 1h30m. To check this file: `workbook-mirror config check --config FILE`.' +
      ' For a proxy or certificates of your own use the variables HTTPS_PROXY, HTTP_PROXY, NO_PROXY and' +
      ' NODE_EXTRA_CA_CERTS.',
    '',
  );
  let previous = '';
  for (const descriptor of settingDescriptors) {
    const [section] = partsOf(descriptor.name);
    if (section === '' || section !== previous) lines.push('');
    if (section !== '' && section !== previous) {
      const about = Object.entries(sections).find(([name]) => name === section)?.[1] ?? '';
      lines.push(...comment(about, ''), `${section}:`);
    }
    previous = section;
    // Only the secret itself: together with its file, it would be refused.
    if (descriptor.fileOf === undefined) lines.push(...exampleLines(descriptor));
  }
  return `${lines.join('\n')}\n`;
}

function exampleLines({ name, description, comment: more, ...descriptor }: SettingDescriptor): string[] {
  const [section, key] = partsOf(name);
  const indent = section === '' ? '' : '  ';
  const text = [
    `${description.charAt(0).toUpperCase()}${description.slice(1)}.`,
    ...(more === undefined ? [] : [more]),
    ...(descriptor.needsRestart ? ['A change needs a restart.'] : []),
  ].join(' ');
  const value = inlineYaml(descriptor.default ?? descriptor.example);
  const mark = descriptor.need === undefined ? '#' : '';
  return [...comment(text.replaceAll('`', ''), indent), `${indent}${mark}${key}: ${value}`];
}

/** Comment lines: a "#" and a space. A commented-out setting has no space. */
function comment(text: string, indent: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > WIDTH) lines.push(`${indent}# ${word}`);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}
