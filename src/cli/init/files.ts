import { dirname, join, parse } from 'node:path';

import { kebabName, settingsByName, settingValue } from '../../config/descriptors.ts';
import { inlineYaml } from '../../config/render.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { INIT_FLAGS } from '../settings/flag-sets.ts';

/** A file to write. */
export interface NewFile {
  readonly path: string;
  readonly text: string;
  readonly isSecret: boolean;
}

/** The folder of the unit's secrets (systemd.exec(5), "Credentials"). */
const CREDENTIALS = '/etc/credstore/workbook-mirror.';

/**
 * The settings file, and one file for each key. A key that is already in a file stays there; for the unit, whose user may not be able to
 * read that file, it becomes a credential.
 * @param configFile absolute
 */
export function filesOf(
  settings: SettingsFor<'service' | 'directory'>,
  configFile: string,
  isForUnit: boolean,
): readonly NewFile[] {
  const service = { ...settings.service };
  const secrets = (['apiKey', 'apiToken'] as const).flatMap((key): NewFile[] => {
    const secret = service[key];
    if (secret === undefined || (!isForUnit && service[`${key}File`] !== undefined)) return [];
    const beside = join(dirname(configFile), `${parse(configFile).name}.${kebabName(key)}`);
    service[`${key}File`] = isForUnit ? undefined : beside;
    const path = isForUnit ? CREDENTIALS + kebabName(`service.${key}`) : beside;
    return [{ path, text: `${secret.revealAll().join('\n')}\n`, isSecret: true }];
  });
  const lines = INIT_FLAGS.reads.flatMap((name) => {
    const value = settingValue({ ...settings, service }, name);
    const comment = settingsByName.get(name)?.description.replaceAll('`', '') ?? '';
    return value === undefined
      ? []
      : [`${name.replace(/^service\./, '  ')}: ${inlineYaml(value)} # ${comment}\n`];
  });
  return [{ path: configFile, text: `service:\n${lines.join('')}`, isSecret: false }, ...secrets];
}
