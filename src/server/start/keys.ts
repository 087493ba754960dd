import { randomBytes } from 'node:crypto';

import type { Settings } from '../../config/schema.ts';
import { keyFolderOf, type KeyProblem, readKeyFolder } from '../keys/key-folder.ts';
import { createKeyReader } from '../keys/key-reader.ts';
import { fixedKey, type KeyKind, type Keys, type KnownKey } from '../http/keys.ts';
import { log } from './log.ts';

/** Keys that hold until the service stops. */
export interface TemporaryKeys {
  readonly apiKey: string;
  /** Null where there is a token already. */
  readonly apiToken: string | null;
}

/** The keys that a service lets in. */
export interface ServedKeys {
  readonly keys: Keys;
  /** Null where there is a key already. */
  readonly temporary: TemporaryKeys | null;
  /** The keys that are known as they are, which must not be shown. */
  readonly secrets: readonly string[];
}

export interface KeysAtStart {
  readonly kinds: ReadonlySet<KeyKind>;
  /** Whether something should be a key and is none. */
  readonly isUncertain: boolean;
}

/**
 * The kinds of keys that are made for as long as a service runs: none where there is a personal key, also where there may be
 * one that cannot be read, as its owner wants that one put right and not another in the log.
 */
export function temporaryKinds({ kinds, isUncertain }: KeysAtStart): readonly KeyKind[] {
  if (isUncertain || kinds.has('personal')) return [];
  return kinds.has('token') ? ['personal'] : ['personal', 'token'];
}

/** Describes a file that should be a key and is none, in a line. */
export function describeKeyProblem({ id, path, reason, isRemovable }: KeyProblem): string {
  if (id === null) return `${path}: ${reason}; no key in it holds`;
  const how = isRemovable ? `\`keys revoke ${id}\` removes it` : 'remove it by hand';
  return `${path} is not a key: ${reason}; it lets nobody in; ${how}`;
}

/** Makes the keys of some kinds that hold until a service stops. */
function makeTemporary(kinds: readonly KeyKind[]): TemporaryKeys | null {
  const random = (): string => randomBytes(32).toString('base64url');
  if (!kinds.includes('personal')) return null;
  return { apiKey: random(), apiToken: kinds.includes('token') ? random() : null };
}

/**
 * The keys of a service: those of the settings, those of its directory as they are at each request, and, where there is none to
 * ask the current API with, some that hold until it stops.
 * @param directory null for a service that has none of its own
 */
export async function openServedKeys(
  settings: Settings['serve'],
  directory: string | null,
): Promise<ServedKeys> {
  const folder = directory === null ? null : keyFolderOf(directory);
  const { keys, problems } = folder === null ? { keys: [], problems: [] } : await readKeyFolder(folder);
  const apiKey = settings.apiKey?.reveal();
  const apiToken = settings.apiToken?.reveal();
  const kinds = new Set(keys.map(({ kind }) => kind));
  if (apiKey !== undefined) kinds.add('personal');
  if (apiToken !== undefined) kinds.add('token');
  const temporary = makeTemporary(temporaryKinds({ kinds, isUncertain: problems.length > 0 }));
  const known = (
    [
      { kind: 'personal', key: apiKey ?? temporary?.apiKey ?? null },
      { kind: 'token', key: apiToken ?? temporary?.apiToken ?? null },
    ] as const
  ).flatMap(({ kind, key }) => (key === null ? [] : [{ kind, key }]));
  const own = known.map(({ kind, key }) => fixedKey(kind, 'settings', key));
  const stored = folder === null ? () => Promise.resolve([]) : createKeyReader(folder, tellProblems);
  // What is wrong is said at once, and not only when somebody asks for something.
  await stored();
  return {
    keys: joined(own, stored),
    temporary,
    secrets: known.map(({ key }) => key),
  };
}

/** The keys of the settings and of the directory as one list, which is another one only when those of the directory are. */
function joined(own: readonly KnownKey[], stored: Keys): Keys {
  let latest: readonly KnownKey[] | null = null;
  let all: readonly KnownKey[] = own;
  return async () => {
    const found = await stored();
    if (found !== latest) all = [...own, ...found];
    latest = found;
    return all;
  };
}

function tellProblems(problems: readonly KeyProblem[]): void {
  for (const problem of problems) log(describeKeyProblem(problem), 'error');
}
