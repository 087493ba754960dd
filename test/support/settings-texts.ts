import { settingDescriptors } from '../../src/config/descriptors.ts';

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
