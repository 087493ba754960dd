import { chmod, mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { syncDirectory } from './registry-index.ts';

/** What an external repository is read with. */
export interface Credentials {
  readonly username: string;
  readonly password: string;
}

/** The credentials of external repositories: a file each, which only the service's own user can read. */
export interface CredentialStore {
  /** Writes them so that a power cut leaves them. */
  readonly write: (id: string, credentials: Credentials) => Promise<void>;
  readonly remove: (id: string) => Promise<void>;
  /** The path of the file of a repository; null where it has none. */
  readonly find: (id: string) => Promise<string | null>;
  /** Removes what belongs to none of these repositories: a crash before one was registered leaves that. */
  readonly keepOnly: (ids: ReadonlySet<string>) => Promise<void>;
}

/** Opens the credentials in a folder, which is made with the first of them. */
export function createCredentialStore(folder: string): CredentialStore {
  const pathOf = (id: string): string => join(folder, id);
  return {
    async write(id, credentials) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await chmod(folder, 0o700);
      const file = await open(pathOf(id), 'wx', 0o600);
      try {
        await file.writeFile(formatCredentials(credentials));
        await file.sync();
      } finally {
        await file.close();
      }
      await syncDirectory(folder);
    },
    remove: (id) => rm(pathOf(id), { force: true }),
    find: (id) =>
      stat(pathOf(id)).then(
        () => pathOf(id),
        () => null,
      ),
    async keepOnly(ids) {
      const names = await readdir(folder).catch(() => []);
      await Promise.all(names.filter((name) => !ids.has(name)).map((name) => rm(pathOf(name))));
    },
  };
}

/** Writes credentials as Git reads them (git-credential(1), "INPUT/OUTPUT FORMAT"); neither of the two holds a line feed. */
export function formatCredentials({ username, password }: Credentials): string {
  return `username=${username}\npassword=${password}\n`;
}

/** Reads back what {@link formatCredentials} wrote. */
export function parseCredentials(text: string): Credentials | null {
  const match = /^username=(.*)\npassword=(.*)\n$/.exec(text);
  return match === null ? null : { username: match[1] ?? '', password: match[2] ?? '' };
}

/**
 * The texts in a file of credentials that nobody may read: the password, and both as a request carries them (RFC 7617). What
 * cannot be read holds nothing that Git could have sent.
 */
export async function secretsIn(path: string | null): Promise<readonly string[]> {
  const text = path === null ? '' : await readFile(path, 'utf8').catch(() => '');
  const credentials = parseCredentials(text);
  if (credentials === null) return [];
  const { username, password } = credentials;
  return [password, Buffer.from(`${username}:${password}`).toString('base64')];
}
