import { stat } from 'node:fs/promises';

import type { Command } from 'commander';

import type { Settings } from '../../config/schema.ts';
import {
  addKey,
  keyFolderOf,
  type KeyFolderContent,
  readKeyFolder,
  removeKey,
} from '../../server/keys/key-folder.ts';
import { looksLikeKey, makeKey, type NewKey, type StoredKey } from '../../server/keys/stored-key.ts';
import { systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { EXIT_CODES, MirrorError } from '../../lib/errors/errors.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { likely } from '../../lib/text/nearest.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { digestOfKey, type KeyKind } from '../../server/http/keys.ts';
import { loudness } from '../frame/loudness.ts';
import { jsonText, linesOf, type Outcome, printOutcome, table, tell } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { printSeen } from '../../lib/process/streams.ts';
import { describeKeyProblem } from '../../server/start/keys.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { prepareServeDirectory, requiredServeDirectory } from '../../server/start/directory.ts';

/** `keys create` */
export async function runKeysCreate(command: Command): Promise<void> {
  const { kind, name, json }: { kind: KeyKind; name: string; json?: true } = command.opts();
  const { settings } = settingsOf(command, []);
  const made = await createKey(settings, kind, name);
  await showKey(settings, made, json === true ? jsonText(printedKey(made)) : say`${made.key}`);
  const isQuiet = loudness() === 'quiet';
  if (made.newDirectory !== null && !isQuiet)
    tell(say`Made the directory ${made.newDirectory}: no service has been there.`, 'warn');
  if (json === true) return;
  if (!isQuiet) tell(describeNewKey(made));
  const { signingSecret } = made.stored;
  if (signingSecret !== null) tell(say`Secret for signed webhooks (GitHub, Gitea): ${signingSecret}`);
}

/** `keys list` */
export async function runKeysList(command: Command): Promise<Outcome> {
  const { settings } = settingsOf(command, []);
  const content = await listKeys(settings);
  printOutcome(command, { data: content.keys.map(listed), text: () => describeKeys(content) });
  const others = keysOfSettings(settings);
  if (others.length > 0 && loudness() !== 'quiet')
    tell(say`The service also takes what the settings hold: ${others.join(', ')}.`);
  for (const problem of content.problems) tell(say`! ${describeKeyProblem(problem)}`, 'error');
  return { exitCode: content.problems.length > 0 ? EXIT_CODES.incomplete : EXIT_CODES.ok };
}

/** `keys revoke` */
export async function runKeysRevoke(command: Command): Promise<Outcome> {
  const [asked = ''] = command.args;
  const revoked = await revokeKey(settingsOf(command, []).settings, asked);
  return loudness() === 'quiet' ? {} : { text: () => say`Revoked ${revoked}.` };
}

/** A key that was just made, and what that changed beside it. */
interface CreatedKey extends NewKey {
  /** The directory, where that was made, too. */
  readonly newDirectory: string | null;
  /** Whether a `serve` that runs may still go by keys that it made up itself. */
  readonly replacesTemporary: boolean;
}

/** The fields of a key that may be shown, for programs. */
function listed({
  id,
  kind,
  name,
  createdAt,
}: StoredKey): Pick<StoredKey, 'id' | 'kind' | 'name' | 'createdAt'> {
  return { id, kind, name, createdAt };
}

/**
 * Makes a key in the directory of the embedded service, also while that runs. Root goes on as the owner of that directory.
 * @throws MirrorError `usage.invalid`, `settings.invalid`, `directory.unusable`, and what the disk says
 */
async function createKey(settings: Settings, kind: KeyKind, name: string): Promise<CreatedKey> {
  const directory = requiredServeDirectory(settings.serve);
  const folder = keyFolderOf(directory);
  const made = makeKey(kind, name, new Date());
  const isDirectoryNew = await prepareServeDirectory(directory);
  await becomeOwnerOf(directory);
  const known = isDirectoryNew ? [] : (await readKeyFolder(folder)).keys;
  await addKey(folder, made.stored, Date.now());
  const isFirst = kind === 'personal' && !known.some((each) => each.kind === kind);
  return {
    ...made,
    newDirectory: isDirectoryNew ? directory : null,
    replacesTemporary: isFirst && !isDirectoryNew && settings.serve.apiKey === undefined,
  };
}

/**
 * Shows a new key to the person who asked for it; a key that cannot be shown must not let anybody in.
 * @throws MirrorError `disk.failed` when it cannot be shown; it is removed then
 */
async function showKey(settings: Settings, { stored: { id } }: NewKey, text: TerminalText): Promise<void> {
  try {
    await printSeen(text);
  } catch (error) {
    await removeKey(keyFolderOf(requiredServeDirectory(settings.serve)), id);
    const why = systemCode(error) ?? 'unknown error';
    throw new MirrorError('disk.failed', `The key cannot be printed (${why}), so it was removed again.`, {
      cause: error,
      hint: 'Give standard output a place that takes it, and make another one.',
    });
  }
}

/** A key that was just made, for programs: the only time that its secrets are shown. */
function printedKey({ key, stored }: NewKey): unknown {
  const { signingSecret } = stored;
  return { ...listed(stored), key, ...(signingSecret === null ? {} : { signingSecret }) };
}

const USES: Readonly<Record<KeyKind, string>> = {
  personal: 'personal API key: the current API, uploads and git',
  group: 'group API key: incoming webhooks, and nothing else',
  token: 'personal API token: v1',
};

/** The words beside a key that was just made. */
function describeNewKey({ stored: { id, kind, name }, replacesTemporary }: CreatedKey): TerminalText {
  return joinLines(
    linesOf(
      `Made a key of ${name}, id ${id} (${USES[kind]}).`,
      'It is shown this once only; the service takes it from now on.',
      replacesTemporary &&
        'Keys that a running `serve` printed at its start end with it; from its next start on it prints none.',
    ),
  );
}

/**
 * The keys of the embedded service's directory, and what should be keys and is none.
 * @throws MirrorError `settings.invalid`, `directory.unusable` for a directory that does not exist
 */
async function listKeys(settings: Settings): Promise<KeyFolderContent> {
  const directory = requiredServeDirectory(settings.serve);
  const found = await unlessMissing(stat(directory));
  if (found?.isDirectory() === true) return readKeyFolder(keyFolderOf(directory));
  throw new MirrorError('directory.unusable', `${directory} is not a directory.`, {
    hint: 'Give the directory of the service; `serve` and `keys create` make it when it does not exist.',
  });
}

/** The keys for a person. */
function describeKeys({ keys, problems }: KeyFolderContent): TerminalText {
  if (keys.length === 0)
    return problems.length === 0 ? say`There is no key.` : say`There is no key that can be read.`;
  const rows = keys.map(({ id, kind, name, createdAt }) => [id, kind, utcTime(Date.parse(createdAt)), name]);
  return table(['ID', 'KIND', 'CREATED', 'NAME'], rows);
}

/** Which settings hold a key of their own, which no command here lists or ends. */
function keysOfSettings({ serve: { apiKey, apiToken } }: Settings): string[] {
  return linesOf(apiKey !== undefined && 'serve.apiKey', apiToken !== undefined && 'serve.apiToken');
}

/**
 * Ends a key: the service refuses it from its next request on.
 * @param asked its id, or the beginning of that
 * @returns its id
 * @throws MirrorError `key.not_found`, `settings.invalid`, `directory.unusable`, and what the disk says
 */
async function revokeKey(settings: Settings, asked: string): Promise<string> {
  const content = await listKeys(settings);
  const directory = requiredServeDirectory(settings.serve);
  await becomeOwnerOf(directory);
  const id = idMeant(asked, keyIds(content));
  if (await removeKey(keyFolderOf(directory), id)) return id;
  throw notFound(asked, content);
}

/** Fewer characters than these are more likely a slip than the beginning of an id. */
const LEAST_BEGINNING_CHARACTERS = 4;

/**
 * The id that is meant by itself or by its beginning, where that is the beginning of no other; else what was asked for.
 * @throws MirrorError `key.not_found` for the beginning of several
 */
export function idMeant(asked: string, ids: readonly string[]): string {
  if (ids.includes(asked) || asked.length < LEAST_BEGINNING_CHARACTERS) return asked;
  const [first, ...others] = ids.filter((id) => id.startsWith(asked));
  if (first === undefined || others.length === 0) return first ?? asked;
  throw new MirrorError(
    'key.not_found',
    `Several keys have an id that begins with ${JSON.stringify(asked)}.`,
    {
      hint: `Give more of it: ${[first, ...others].join(', ')}.`,
    },
  );
}

/** The ids of all keys, and of what should be keys and is none. */
export function keyIds({ keys, problems }: KeyFolderContent): string[] {
  return [...keys, ...problems].flatMap(({ id }) => (id === null ? [] : [id]));
}

function notFound(asked: string, content: KeyFolderContent): MirrorError {
  const { keys } = content;
  if (looksLikeKey(asked)) {
    const same = keys.find(({ sha256 }) => sha256 === digestOfKey(asked));
    // Not repeated: it opens something, and errors are logged.
    return new MirrorError('key.not_found', 'That is a key itself, and not the id of one.', {
      hint:
        same === undefined
          ? 'It is no key of this service. `keys list` shows the ids.'
          : `Its id is ${same.id}: give that. Other users of this machine may have seen the key in the list of processes.`,
    });
  }
  const ids = keyIds(content);
  const close = likely(asked, ids);
  return new MirrorError('key.not_found', `There is no key with the id ${JSON.stringify(asked)}.`, {
    hint:
      ids.length === 0
        ? 'There is none at all in this directory.'
        : close === undefined
          ? '`keys list` shows all of them.'
          : `The nearest is ${close}; \`keys list\` shows all of them.`,
  });
}
