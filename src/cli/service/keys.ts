import { stat } from 'node:fs/promises';

import type { Command } from 'commander';

import { unknownName } from '../../app/target-names.ts';
import type { Settings } from '../../config/schema.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { writeBytes } from '../../lib/process/streams.ts';
import { partsOf, utcTime } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type Shown } from '../../lib/text/terminal-text.ts';
import { changeKeys, readKeys } from '../../server/keys/key-file.ts';
import { digestOfKey, looksLikeKey, makeKey, type StoredKey } from '../../server/keys/keys.ts';
import type { KeyKind } from '../../lib/api/requests.ts';
import { prepareServeDirectory, requiredServeDirectory } from '../../server/start/directory.ts';
import { jsonText, loudness, type Outcome, table, tell } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';

const USES: Readonly<Record<KeyKind, string>> = {
  personal: 'personal API key: the current API, uploads and git',
  group: 'group API key: incoming webhooks, and nothing else',
  token: 'personal API token: v1',
};

const CHANGING = 'changing the keys';

/** `keys create`, also while the service runs. Root becomes the owner of the directory. */
export async function runKeysCreate(command: Command): Promise<void> {
  const { kind, name, json }: { kind: KeyKind; name: string; json?: true } = command.opts();
  const directory = requiredServeDirectory(settingsOf(command, []).settings.serve);
  const { key, stored } = makeKey(kind, name, new Date());
  const { id, signingSecret } = stored;
  const isDirectoryNew = await prepareServeDirectory(directory);
  await becomeOwnerOf(directory);
  const secrets = { key, ...(signingSecret === null ? {} : { signingSecret }) };
  const shown = json === true ? String(jsonText({ ...listed(stored), ...secrets })) : key;
  const add = async (keys: readonly StoredKey[]): Promise<readonly StoredKey[]> => {
    // A key that the user did not see must not become valid.
    await writeBytes(Buffer.from(`${shown}\n`));
    return [...keys, stored];
  };
  await onDisk(CHANGING, () => changeKeys(directory, add));
  const isQuiet = loudness() === 'quiet';
  if (isDirectoryNew && !isQuiet) tell(say`Made the directory ${directory} for a new service.`, 'warn');
  if (json === true) return;
  if (!isQuiet)
    tell(
      say`Made a key for ${name}, id ${id} (${USES[kind]}). It is shown only once. A running \`serve\` accepts it now, and its temporary keys until it stops.`,
    );
  if (signingSecret !== null) tell(say`Secret for signed webhooks (GitHub, Gitea): ${signingSecret}`);
}

/** `keys list` */
export async function runKeysList(command: Command): Promise<Outcome> {
  const { serve } = settingsOf(command, []).settings;
  const keys = await keysOf(serve);
  const rows = keys.map(({ id, kind, name, createdAt }) => [id, kind, utcTime(Date.parse(createdAt)), name]);
  const others = partsOf(
    serve.apiKey !== undefined && 'serve.apiKey',
    serve.apiToken !== undefined && 'serve.apiToken',
  );
  if (others.length > 0 && loudness() !== 'quiet')
    tell(say`The service also takes what the settings hold: ${others.join(', ')}.`);
  const none = 'There is no key.';
  const text = (): Shown => (rows.length === 0 ? none : table(['ID', 'KIND', 'CREATED', 'NAME'], rows));
  return { data: keys.map(listed), text };
}

/** `keys revoke` */
export async function runKeysRevoke(command: Command): Promise<Outcome> {
  const [id = ''] = command.args;
  const { serve } = settingsOf(command, []).settings;
  const found = await keysOf(serve);
  const directory = requiredServeDirectory(serve);
  await becomeOwnerOf(directory);
  if (!found.some((each) => each.id === id)) throw notFound(id, found);
  await onDisk(CHANGING, () => changeKeys(directory, (keys) => keys.filter((each) => each.id !== id)));
  return loudness() === 'quiet' ? {} : { text: () => say`Revoked ${id}.` };
}

/** The fields of a key that may be shown. */
function listed({ id, kind, name, createdAt }: StoredKey): Omit<StoredKey, 'sha256' | 'signingSecret'> {
  return { id, kind, name, createdAt };
}

/** The keys of the embedded service. @throws MirrorError `settings.invalid`, `directory.unusable`, `disk.*` */
async function keysOf(serve: Settings['serve']): Promise<readonly StoredKey[]> {
  const directory = requiredServeDirectory(serve);
  const doing = 'reading the keys';
  const found = await onDisk(doing, () => unlessMissing(stat(directory)));
  if (found?.isDirectory() === true) return onDisk(doing, () => readKeys(directory));
  throw new MirrorError('directory.unusable', `${directory} is not a directory.`, {
    hint: 'Give the directory of the service; `serve` and `keys create` make it when it does not exist.',
  });
}

function notFound(asked: string, keys: readonly StoredKey[]): MirrorError {
  if (looksLikeKey(asked)) {
    const same = keys.find(({ sha256 }) => sha256 === digestOfKey(asked));
    const what = same === undefined ? 'It is not a key of this service.' : `Its id is ${same.id}: give that.`;
    // The key is not repeated: errors are logged.
    return new MirrorError('key.not_found', 'This is a key, not the id of a key.', {
      hint: `${what} Other users of this machine may have seen it in the list of processes.`,
    });
  }
  const ids = keys.map(({ id }) => id);
  const message = `There is no key with the id ${JSON.stringify(asked)}.`;
  return unknownName(
    'key.not_found',
    message,
    asked,
    ids,
    `\`${ownCommand('keys list')}\` shows all of them.`,
  );
}
