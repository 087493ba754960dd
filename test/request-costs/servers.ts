import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** The three servers of the program. */
export const SERVERS = ['serve', 'replica', 'status', 'status with a token'] as const;
export type ServerName = (typeof SERVERS)[number];

/** A server that runs. */
export interface Server {
  readonly pid: number;
  readonly port: number;
}

/** The servers, each in a process of its own. */
export interface Servers {
  readonly of: Readonly<Record<ServerName, Server>>;
  readonly close: () => Promise<void>;
}

/** What opens them. */
export const KEY = 'a-personal-key-of-the-measurement';
export const TOKEN = 'a-token-of-the-measurement';

const MAIN = join(import.meta.dirname, '../../src/main.ts');

/** Starts all servers on the samples of the embedded service. */
export async function startServers(): Promise<Servers> {
  const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-costs-'));
  const children: ChildProcess[] = [];
  const own = {
    WORKBOOK_MIRROR_SERVE_DIRECTORY: join(folder, 'service'),
    WORKBOOK_MIRROR_SERVE_LISTEN: '127.0.0.1:0',
    WORKBOOK_MIRROR_SERVE_API_KEY: KEY,
    WORKBOOK_MIRROR_SERVE_API_TOKEN: TOKEN,
    WORKBOOK_MIRROR_DIRECTORY: join(folder, 'mirrored'),
    WORKBOOK_MIRROR_SERVICE_API_KEY: KEY,
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: TOKEN,
    WORKBOOK_MIRROR_HTTP_LISTEN: 'off',
  };
  const environment = (more: Readonly<Record<string, string>>): NodeJS.ProcessEnv => ({
    ...process.env,
    ...own,
    ...more,
  });
  const begin = async (
    args: readonly string[],
    pattern: RegExp,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Server> => {
    const child = spawn(process.execPath, [MAIN, ...args], {
      env: environment(more),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.push(child);
    // As large as a log gets; to a file, as a service of systemd would write it to the journal.
    child.stderr.pipe(createWriteStream(join(folder, `${children.length}.log`)));
    for await (const line of createInterface({ input: child.stdout })) {
      const port = pattern.exec(line)?.[1];
      if (port === undefined) continue;
      child.stdout.resume();
      return { pid: child.pid ?? 0, port: Number(port) };
    }
    throw new Error(`${args.join(' ')} ended: see ${folder}`);
  };
  const listening = /^http:.*:(\d+)\/api$/;
  const page = /"address":"http:[^"]*:(\d+)\/"/;
  for (const kind of ['group', 'group', 'group', 'personal', 'personal', 'token'])
    execFileSync(process.execPath, [MAIN, 'keys', 'create', '--kind', kind, '--name', 'K'], {
      env: environment({}),
      stdio: 'ignore',
    });
  const serve = await begin(['serve', '--samples'], listening);
  const service = { WORKBOOK_MIRROR_SERVICE_BASE_URL: `http://127.0.0.1:${serve.port}/api` };
  execFileSync(process.execPath, [MAIN, 'sync'], { env: environment(service), stdio: 'ignore' });
  const replica = await begin(['serve', '--from-mirror'], listening);
  const status = await begin(['run'], page, { ...service, WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0' });
  const guarded = await begin(['run'], page, {
    ...service,
    WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
    WORKBOOK_MIRROR_HTTP_TOKEN: TOKEN,
    WORKBOOK_MIRROR_DIRECTORY: join(folder, 'second'),
  });
  return {
    of: { serve, replica, status, 'status with a token': guarded },
    async close() {
      for (const child of children) {
        const ended = once(child, 'close');
        child.kill('SIGTERM');
        await ended;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}
