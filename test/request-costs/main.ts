import { readdirSync, readFileSync } from 'node:fs';

import { createRawClient } from './raw-client.ts';
import { hostileRequests, type MeasuredRequest, plainRequest } from './requests.ts';
import { type Server, SERVERS, startServers } from './servers.ts';

/**
 * Measures what hostile requests cost the servers of the program, in CPU time of their processes, beside a plain one that is refused
 * and one that is answered. Prints the dearest of them; takes some minutes. Usage: node test/request-costs/main.ts [rows]
 */

const WARM_UP = 10;
const LEAST_REQUESTS = 10;
const MEASURED_MS = 100;
/** What all others are compared with is measured so much longer, once the server has settled. */
const BASE_FACTOR = 20;
/** What seems to cost so much more is measured again, for longer: it may have been something else. */
const DEAR_FACTOR = 5;
const AGAIN_FACTOR = 10;

/** CPU time of all threads of a process, in milliseconds (proc(5), `schedstat`). */
function cpuMsOf(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`);
  const nanoseconds = tasks.map((task) => {
    try {
      return Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'latin1').split(' ')[0]);
    } catch {
      return 0;
    }
  });
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e6;
}

interface Cost {
  readonly name: string;
  readonly status: number;
  /** Of one request, in milliseconds. */
  readonly cpuMs: number;
}

async function costOf({ pid, port }: Server, { name, bytes }: MeasuredRequest, factor = 1): Promise<Cost> {
  const client = createRawClient(port);
  try {
    let status = 0;
    for (let count = 0; count < WARM_UP * factor; count += 1) status = await client.ask(bytes);
    const beforeMs = cpuMsOf(pid);
    const endAtMs = performance.now() + MEASURED_MS * factor;
    let count = 0;
    while (count < LEAST_REQUESTS || performance.now() < endAtMs) {
      await client.ask(bytes);
      count += 1;
    }
    return { name, status, cpuMs: (cpuMsOf(pid) - beforeMs) / count };
  } finally {
    client.close();
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

const rows = Number(process.argv[2] ?? 12);
const servers = await startServers();
try {
  for (const name of SERVERS) {
    const server = servers.of[name];
    await costOf(server, plainRequest(name, true), BASE_FACTOR);
    const refused = await costOf(server, plainRequest(name, false), BASE_FACTOR);
    const answered = await costOf(server, plainRequest(name, true), BASE_FACTOR);
    print(
      `\n${name}: ${refused.name} refused (${refused.status}) ${refused.cpuMs.toFixed(3)} ms, answered (${answered.status}) ${answered.cpuMs.toFixed(3)} ms`,
    );
    for (const isAuthorised of [false, true]) {
      const costs: Cost[] = [];
      for (const request of hostileRequests(name, isAuthorised)) {
        const cost = await costOf(server, request);
        const isDear = cost.cpuMs > DEAR_FACTOR * refused.cpuMs;
        costs.push(isDear ? await costOf(server, request, AGAIN_FACTOR) : cost);
      }
      costs.sort((a, b) => b.cpuMs - a.cpuMs);
      print(isAuthorised ? '  with what opens it' : '  with nothing, or with a wrong key');
      for (const { name, status, cpuMs } of costs.slice(0, rows)) {
        const ratios = [refused, answered].map((base) => `${(cpuMs / base.cpuMs).toFixed(1).padStart(7)}x`);
        print(`  ${cpuMs.toFixed(3).padStart(9)} ms ${ratios.join(' ')}  ${status} ${name}`);
      }
    }
  }
} finally {
  await servers.close();
}
