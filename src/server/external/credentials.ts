import { chmod, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { syncDirectory, writeNewFile } from '../../lib/disk/durable.ts';
import { SHORTEST_SECRET } from '../../lib/text/scrub.ts';

export interface Credentials {
  readonly username: string;
  readonly password: string;
}

/** The name of a file of credentials. */
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The credentials of external repositories: a file each, which only the service's own user can read. */
export class CredentialStore {
  private readonly folder: string;

  /** @param folder made with the first of them */
  constructor(folder: string) {
    this.folder = folder;
  }

  /** Writes them so that a power cut leaves them. */
  async write(id: string, credentials: Credentials): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    await chmod(this.folder, 0o700);
    await writeNewFile(join(this.folder, id), formatCredentials(credentials), 0o600);
    await syncDirectory(this.folder);
  }

  remove(id: string): Promise<void> {
    return rm(join(this.folder, id), { force: true });
  }

  /** The path of the file of a repository; null where it has none. */
  async find(id: string): Promise<string | null> {
    const path = join(this.folder, id);
    return (await stat(path).catch(() => null)) === null ? null : path;
  }

  /**
   * Removes what belongs to none of these repositories: a crash before one was registered leaves that. What somebody else put
   * there stays.
   */
  async keepOnly(ids: ReadonlySet<string>): Promise<void> {
    const entries = await readdir(this.folder, { withFileTypes: true }).catch(() => []);
    const others = entries.filter((entry) => entry.isFile() && ID.test(entry.name) && !ids.has(entry.name));
    await Promise.all(others.map(({ name }) => this.remove(name)));
  }
}

/** Writes credentials as Git reads them (git-credential(1), "INPUT/OUTPUT FORMAT"); neither of the two holds a line feed. */
export function formatCredentials({ username, password }: Credentials): string {
  return `username=${username}\npassword=${password}\n`;
}

/** The secrets in a file of credentials. */
export interface CredentialSecrets {
  /** The texts to mask. */
  readonly secrets: readonly string[];
  /** False where masking these is not enough: what comes from the server must not be shown at all then. */
  readonly areEnough: boolean;
  /** Whether Git finds a user name and a password in it. */
  readonly isComplete: boolean;
}

/** For a repository without credentials. */
const NOTHING_SECRET: CredentialSecrets = { secrets: [], areEnough: true, isComplete: true };

/** So long a user name may be a token, which many hosts take in its place. */
const SHORTEST_TOKEN = 20;

/** Names in what Git reads whose values tell nothing (git-credential(1), "INPUT/OUTPUT FORMAT"). */
const PUBLIC_NAMES = new Set(['username', 'protocol', 'host', 'path', 'url', 'quit', 'password_expiry_utc']);

/**
 * Finds what must not be shown in a file of credentials, which somebody may have written by hand: with lines in any order, with
 * CRLF, without a last line feed, or with something else in it altogether. Git repeats lines that it does not understand.
 * @param text the file
 */
export function secretsOf(text: string): CredentialSecrets {
  const bare = new Set<string>();
  const usernames = new Set<string>();
  const passwords = new Set<string>();
  for (const line of text.split('\n')) {
    const at = line.indexOf('=');
    const name = line.slice(0, Math.max(0, at));
    // A carriage return belongs to the end of a line, but in a last line without a line feed to the value.
    for (const value of [line.slice(at + 1), line.slice(at + 1).replace(/\r$/, '')]) {
      if (name === 'username') usernames.add(value);
      if (name === 'password') passwords.add(value);
      if (!PUBLIC_NAMES.has(name) && value !== '') bare.add(value);
    }
  }
  const isToken = (username: string): boolean => passwords.has('') || username.length >= SHORTEST_TOKEN;
  for (const username of usernames) if (username !== '' && isToken(username)) bare.add(username);
  const isComplete = usernames.size > 0 && passwords.size > 0;
  // As a request carries both (RFC 7617).
  const inRequests = [...usernames].flatMap((username) =>
    [...passwords].map((password) => Buffer.from(`${username}:${password}`).toString('base64')),
  );
  return {
    secrets: [...bare, ...inRequests],
    areEnough: isComplete && [...bare].every(({ length }) => length >= SHORTEST_SECRET),
    isComplete,
  };
}

/** Reads what must not be shown of a file of credentials; `path` is null where there is none. */
export async function readSecrets(path: string | null): Promise<CredentialSecrets> {
  if (path === null) return NOTHING_SECRET;
  const text = await readFile(path, 'utf8').catch(() => '');
  return secretsOf(text);
}

/** The secrets of two states of a file, the one before a change and the one after it. */
export function allSecrets(before: CredentialSecrets, after: CredentialSecrets): CredentialSecrets {
  return {
    secrets: [...before.secrets, ...after.secrets],
    areEnough: before.areEnough && after.areEnough,
    isComplete: after.isComplete,
  };
}
