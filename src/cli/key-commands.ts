import { type Command, Option } from 'commander';

import { EXIT_CODES } from '../lib/errors/errors.ts';
import { say } from '../lib/text/terminal-text.ts';
import { KEY_KINDS, type KeyKind } from '../server/http/keys.ts';
import { declare, type FlagSet, type SetExitCode } from './declare.ts';
import { loudness } from './loudness.ts';
import { jsonText, printData, printJson, tell } from './output.ts';

/** Where the keys are. */
const PLACE_FLAGS: FlagSet = { reads: ['serve.directory'], needs: [], onLine: ['serve.directory'] };
/** What lists them also says which settings hold a key. */
const LIST_FLAGS: FlagSet = {
  reads: ['serve.directory', 'serve.apiKeyFile', 'serve.apiTokenFile'],
  needs: [],
  onLine: ['serve.directory', 'serve.apiKeyFile', 'serve.apiTokenFile'],
};

/** Declares the commands around the keys of the embedded service: `keys create`, `keys list`, `keys revoke`. */
export function addKeyCommands(program: Command, setExitCode: SetExitCode): void {
  const keys = program
    .command('keys')
    .summary('keys of the embedded service')
    .description(
      'Keys of the embedded service, in its directory. All of these work beside a running `serve`, which goes by them from ' +
        'its next request on.',
    );
  addCreate(keys);
  addList(keys, setExitCode);
  declare(
    keys,
    'revoke',
    PLACE_FLAGS,
    'end a key',
    'The service refuses it from its next request on.\n\n' +
      'Example: workbook-mirror keys revoke 0b9f4c9e-8a7d-4e0e-9d0c-1f2a3b4c5d6e --serve-directory ./service\n\n' +
      'See also: `help kinds-of-keys`.',
  )
    .argument('<id>', 'as in `keys list`, or its beginning')
    .action(async (id: string, _options: unknown, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, []);
      const { revokeKey } = await import('./keys.ts');
      const revoked = await revokeKey(settings, id);
      if (loudness() !== 'quiet') printData(say`Revoked ${revoked}.`);
    });
}

function addCreate(keys: Command): void {
  declare(
    keys,
    'create',
    PLACE_FLAGS,
    'make a key, and print it once',
    'Standard output gets the key and nothing else. A personal key is for the current API, for uploads and for git; a group ' +
      'key for incoming webhooks only, with a secret for those that sign (GitHub, Gitea), which is printed on standard error; a ' +
      'token is for v1.\n\n' +
      'Example: (umask 077; workbook-mirror keys create --kind personal --name Anna --serve-directory ./service > anna.key)\n\n' +
      'See also: `help kinds-of-keys`.',
  )
    .addOption(new Option('--kind <kind>', 'what it is for').choices(KEY_KINDS).makeOptionMandatory())
    .requiredOption('--name <name>', 'whose it is: the author of what is uploaded with it')
    .option('--json', 'print the key with all that belongs to it as JSON')
    .action(async (options: { kind: KeyKind; name: string; json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, []);
      const { createKey, describeNewDirectory, describeNewKey, printedKey, showKey } =
        await import('./keys.ts');
      const { printSeen } = await import('../lib/process/streams.ts');
      const made = await createKey(settings, options.kind, options.name);
      const text = options.json ? jsonText(printedKey(made)) : say`${made.key}`;
      await showKey(settings, made, () => printSeen(text));
      const newDirectory = describeNewDirectory(made);
      if (newDirectory !== null && loudness() !== 'quiet') tell(newDirectory, 'warn');
      if (options.json) return;
      if (loudness() !== 'quiet') tell(describeNewKey(made));
      const { signingSecret } = made.stored;
      if (signingSecret !== null) tell(say`Secret for signed webhooks (GitHub, Gitea): ${signingSecret}`);
    });
}

function addList(keys: Command, setExitCode: SetExitCode): void {
  declare(
    keys,
    'list',
    LIST_FLAGS,
    'show the keys',
    'Not what could be used in their place. Ends with 1 when a file is no key that can be read.\n\n' +
      'Example: workbook-mirror keys list --json --serve-directory ./service\n\n' +
      'See also: `help kinds-of-keys`.',
  )
    .option('--json', 'print the keys as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, []);
      const { describeKeys, keysOfSettings, listedKeys, listKeys } = await import('./keys.ts');
      const { describeKeyProblem } = await import('../server/start/keys.ts');
      const content = await listKeys(settings);
      if (options.json) printJson(listedKeys(content));
      else printData(describeKeys(content));
      const others = keysOfSettings(settings);
      if (others.length > 0 && loudness() !== 'quiet')
        tell(say`The service also takes what the settings hold: ${others.join(', ')}.`);
      for (const problem of content.problems) tell(say`! ${describeKeyProblem(problem)}`, 'error');
      if (content.problems.length > 0) setExitCode(EXIT_CODES.incomplete);
    });
}
