import { mkdir, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { syncDirectory, writeNewFile } from '../../lib/disk/durable.ts';
import { ID } from '../git/addresses.ts';

export interface Credentials {
  readonly username: string;
  readonly password: string;
}

/** Writes the file with the credentials of a repository, which only the service's own user can read; it survives a power cut. */
export async function writeCredentials(path: string, credentials: Credentials): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeNewFile(path, formatCredentials(credentials), 0o600);
  await syncDirectory(folder);
}

/** Removes the files of unknown repositories: a crash while one is connected leaves them. Files with other names stay. */
export async function removeUnknownCredentials(folder: string, known: ReadonlySet<string>): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const unknown = entries.filter((entry) => entry.isFile() && ID.test(entry.name) && !known.has(entry.name));
  await Promise.all(unknown.map(({ name }) => rm(join(folder, name), { force: true })));
}

/** Writes credentials as Git reads them (git-credential(1), "INPUT/OUTPUT FORMAT"); neither of the two holds a line feed. */
export function formatCredentials({ username, password }: Credentials): string {
  return `username=${username}\npassword=${password}\n`;
}

/** A user name of this length may be a token, which many hosts accept instead of a password. */
const SHORTEST_TOKEN = 20;

/**
 * Finds the secrets in a file of credentials, which may have been edited: every value except a short user name, and the text that a
 * request carries (RFC 7617).
 */
export function secretsOf(text: string): string[] {
  const fields = new Map(
    text.split(/\r?\n/).map((line) => [line.replace(/=.*/s, ''), line.replace(/^.*?=/s, '')]),
  );
  const username = fields.get('username') ?? '';
  const password = fields.get('password') ?? '';
  // A token may also come as the user name of an empty password.
  if (password !== '' && username.length < SHORTEST_TOKEN) fields.delete('username');
  const sent = Buffer.from(`${username}:${password}`).toString('base64');
  return [...fields.values(), sent].filter((secret) => secret !== '');
}
