import { chmod, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { syncDirectory, writeNewFile } from '../../lib/disk/durable.ts';

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

  /** Writes them so that they survive a power cut. */
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

  /** Removes the files of unknown repositories: a crash while one is connected leaves them. Files with other names stay. */
  async keepOnly(ids: ReadonlySet<string>): Promise<void> {
    const entries = await readdir(this.folder, { withFileTypes: true }).catch(() => []);
    const unknown = entries.filter((entry) => entry.isFile() && ID.test(entry.name) && !ids.has(entry.name));
    await Promise.all(unknown.map(({ name }) => this.remove(name)));
  }
}

/** Writes credentials as Git reads them (git-credential(1), "INPUT/OUTPUT FORMAT"); neither of the two holds a line feed. */
export function formatCredentials({ username, password }: Credentials): string {
  return `username=${username}\npassword=${password}\n`;
}

/** A user name of this length may be a token, which many hosts accept instead of a password. */
const SHORTEST_TOKEN = 20;

/** Fields of Git's input whose values are not secret (git-credential(1), "INPUT/OUTPUT FORMAT"). */
const PUBLIC_NAME = /^(?:protocol|host|path|url|quit|password_expiry_utc)$/;

/**
 * Finds the secrets in a file of credentials, which may have been edited: every value except a short user name, every
 * line that Git does not understand, and the text that a request carries (RFC 7617).
 */
export function secretsOf(text: string): string[] {
  const secrets = new Set<string>();
  const pair = { username: '', password: '' };
  for (const line of text.split(/\r?\n/)) {
    const [, name = '', value = ''] = /^([^=]*)=?(.*)$/.exec(line) ?? [];
    const isPublic = PUBLIC_NAME.test(name) || (name === 'username' && value.length < SHORTEST_TOKEN);
    if (name === 'username' || name === 'password') pair[name] = value;
    if (!isPublic) secrets.add(line.includes('=') ? value : line);
  }
  // A token may also come as the user name of an empty password.
  secrets.add(pair.password === '' ? pair.username : pair.password);
  secrets.add(Buffer.from(`${pair.username}:${pair.password}`).toString('base64'));
  secrets.delete('');
  return [...secrets];
}

/** Reads the secrets in a file of credentials; `path` is null for a repository without one. */
export async function readSecrets(path: string | null): Promise<string[]> {
  return path === null ? [] : secretsOf(await readFile(path, 'utf8').catch(() => ''));
}
