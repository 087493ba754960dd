import { type DeletionLimit, formatDeletionLimit } from '../mirror/plan/guard.ts';
import { printable } from '../lib/text/humanize.ts';
import { formatRetention, type Retention } from '../mirror/plan/retention.ts';
import { formatDuration, formatSize } from '../lib/text/units.ts';
import { formatListen } from './addresses.ts';
import {
  indentOf,
  lastPart,
  sectionsEntered,
  settingDescriptors,
  type SettingDescriptor,
} from './descriptors.ts';
import type { SettingKind } from './leaf.ts';
import type { SettingSource } from './problems.ts';
import type { SettingSources } from './resolve.ts';
import type { Settings } from './schema.ts';
import { Secret } from './secret.ts';
import { settingValue } from './setting-value.ts';
import { inlineYaml } from './yaml-text.ts';

/** One setting as it is in force, fit for JSON and for printing: spelled as in the file, secrets masked. */
export interface EffectiveSetting {
  readonly value: string | number | readonly string[] | null;
  readonly source: SettingSource;
}

const NO_SOURCE: SettingSource = { kind: 'default', detail: '' };

/** All settings as they are in force, by dotted name, secrets masked; null where nothing is set. */
export function effectiveSettings(
  settings: Settings,
  sources: SettingSources,
): Readonly<Record<string, EffectiveSetting>> {
  return Object.fromEntries(
    settingDescriptors.map((descriptor) => {
      const source = sources[descriptor.name] ?? NO_SOURCE;
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
    const { value, source } = effective[name] ?? { value: null, source: NO_SOURCE };
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

function spelled({ kind }: SettingDescriptor, value: unknown): EffectiveSetting['value'] {
  if (value instanceof Secret) return value.toString();
  if (typeof value === 'number') return spelledNumber(kind, value);
  if (Array.isArray(value)) return value.map(String);
  if (typeof value === 'string') return value;
  if (value === null && (kind === 'listen' || kind === 'size')) return 'off';
  if (!isRecord(value)) return null;
  if (isLimit(kind, value)) return formatDeletionLimit(value);
  return isRetention(kind, value) ? formatRetention(value) : spelledAddress(value);
}

function spelledNumber(kind: SettingKind, value: number): string | number {
  if (kind === 'duration') return formatDuration(value);
  return kind === 'size' ? formatSize(value) : value;
}

function isLimit(kind: SettingKind, value: object): value is DeletionLimit {
  return kind === 'limit' && 'kind' in value;
}

function isRetention(kind: SettingKind, value: object): value is Retention {
  return kind === 'retention' && 'kind' in value;
}

function spelledAddress({ host, port, store, address }: Readonly<Record<string, unknown>>): string | null {
  if (typeof host === 'string' && typeof port === 'number') return formatListen({ host, port });
  if (address instanceof Secret) return address.toString();
  return typeof store === 'string' ? store : null;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
