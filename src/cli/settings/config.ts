import type { Command } from 'commander';

import { nextRunsMs } from '../../app/schedule.ts';
import { exposedSecretFiles } from '../../config/changes.ts';
import { fileSettingOf, settingDescriptors } from '../../config/descriptors.ts';
import type { SettingSources } from '../../config/layers.ts';
import type { LoadedSettings } from '../../config/load.ts';
import { effectiveSettings, renderEffective, renderJsonSchema } from '../../config/render.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { escapedJson, escapedLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import { judged, type Outcome } from '../frame/output.ts';
import { describeFindings, type Finding, warning, well } from './findings.ts';
import { checkLocally, checkOnline } from './checks.ts';
import { settingsOf } from './settings-flags.ts';

type Loaded = Pick<LoadedSettings<[]>, 'settings' | 'sources' | 'configFile'>;

/** `config check` */
export async function runConfigCheck(command: Command): Promise<Outcome> {
  const { online }: { online?: true } = command.opts();
  const loaded = settingsOf(command, ['service', 'directory']);
  const findings = [...settingsFindings(loaded), scheduleFinding(loaded.settings)];
  if (online !== true) return reported([...findings, ...(await checkLocally(loaded.settings))]);
  // The user of the daemon owns the directory.
  await becomeOwnerOf(loaded.settings.directory);
  return reported([...findings, ...(await checkOnline(loaded.settings))]);
}

function reported(findings: readonly Finding[]): Outcome {
  const isRight = findings.every(({ verdict }) => verdict !== 'error');
  return judged(isRight, findings, () => describeFindings(findings));
}

/** `config show` */
export function runConfigShow(command: Command): Outcome {
  const { settings, sources } = settingsOf(command, []);
  const text = (): TerminalText => escapedLines(renderEffective(settings, sources));
  return { data: effectiveSettings(settings, sources), text };
}

/** `config schema` */
export function runConfigSchema(): Outcome {
  return { text: () => escapedJson(renderJsonSchema()) };
}

/** The finding that the settings are valid, and warnings about their secrets. */
export function settingsFindings({ settings, sources, configFile }: Loaded): Finding[] {
  const file = configFile === undefined ? 'no settings file was read' : `${configFile} was read`;
  const ownFile = configFile === undefined || !holdsSecret(sources) ? [] : [configFile];
  return [
    well('settings', `good for run; ${file}`),
    ...exposedSecretFiles(settings, ownFile).map((path) =>
      warning(
        'secrets',
        `every user of this machine can read ${path}, which holds a secret`,
        'Give it to the user of the program, with mode 0400.',
      ),
    ),
  ];
}

/** The passes shown for a schedule. */
const PASSES_SHOWN = 3;

/** Lists the next passes, which shows the meaning of the schedule. */
function scheduleFinding({ schedule, timezone }: Loaded['settings']): Finding {
  const style = { dateStyle: 'full', timeStyle: 'medium' } as const;
  const format = new Intl.DateTimeFormat('en-GB', { ...style, timeZone: timezone });
  const passes = nextRunsMs(schedule, timezone, PASSES_SHOWN).map((timeMs) => format.format(timeMs));
  return well('schedule', `the next passes start on ${passes.join('; ')} (time zone ${timezone})`);
}

/** Whether the settings file itself holds a secret, not the path of a file with one. */
function holdsSecret(sources: SettingSources): boolean {
  const kindOf = (name = ''): string => sources[name]?.kind ?? 'default';
  return settingDescriptors.some(
    ({ name, secret }) =>
      secret && kindOf(name) === 'file' && kindOf(fileSettingOf(name)?.name) === 'default',
  );
}
