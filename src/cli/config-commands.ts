import { type Command, Option } from 'commander';

import { escapedJson } from '../lib/text/terminal-text.ts';
import { declare } from './declare.ts';
import { printData, printJson } from './output.ts';

/** The commands that settings are checked for. */
const CHECKED = ['run', 'serve'] as const;
type CheckedCommand = (typeof CHECKED)[number];

/** Declares the commands on settings: `config check`, `config show`, `config schema`. */
export function addConfigCommands(program: Command): void {
  const config = program
    .command('config')
    .summary('settings')
    .description('Settings: check them, show them, describe them.');
  declare(
    config,
    'check',
    'all',
    'check the settings of the daemon, or of the embedded service',
    'Reports all problems of the settings at once; then tries whether the commands of hooks can be run, as `run` does. With ' +
      '`--for serve` it checks them for `serve`, which needs no service and no mirror. Ends with 2 when there are any problems.\n\n' +
      'Example: workbook-mirror config check --config config.yaml',
  )
    .addOption(
      new Option('--for <command>', 'the command that is to run with them (default: run)').choices(CHECKED),
    )
    .action(async (options: { for?: CheckedCommand }, command: Command) => {
      const { describeCheck } = await import('./config.ts');
      const { settingsOf } = await import('./settings-flags.ts');
      if (options.for === 'serve') {
        const loaded = settingsOf(command, []);
        const { requiredServeDirectory } = await import('../server/start/directory.ts');
        requiredServeDirectory(loaded.settings.serve);
        printData(describeCheck(loaded, 'serve'));
        return;
      }
      const loaded = settingsOf(command, ['service', 'directory']);
      const { checkCommands } = await import('../daemon/hooks/publish-gate.ts');
      await checkCommands(loaded.settings);
      printData(describeCheck(loaded));
    });
  declare(
    config,
    'show',
    'all',
    'show the effective settings and where each comes from',
    'Secrets are masked.\n\nExample: workbook-mirror config show --json',
  )
    .option('--json', 'print the settings as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const loaded = settingsOf(command, []);
      const { showSettings } = await import('./config.ts');
      const { yaml, data } = showSettings(loaded);
      if (options.json) printJson(data);
      else printData(yaml);
    });
  declare(
    config,
    'schema',
    null,
    'print the JSON Schema of the settings file',
    'Example: workbook-mirror config schema > config.schema.json',
  ).action(async () => {
    const { renderJsonSchema } = await import('../config/render.ts');
    printData(escapedJson(renderJsonSchema()));
  });
}
