import { API_TOKEN } from '../../support/fake-service.ts';

/**
 * Reads all pages of the list of workbooks into memory, and then only calls JSON.parse: no reader of the lists can be faster.
 * Prints the CPU time of one round, in milliseconds.
 *   parse-pages.ts BASE_URL TIMES
 */

const [, , baseUrl = '', times = '1'] = process.argv;

async function pagesOf(first: string): Promise<Buffer[]> {
  const pages: Buffer[] = [];
  for (let address: string | null = first; address !== null;) {
    const page: Buffer = Buffer.from(
      await (await fetch(address, { headers: { authorization: API_TOKEN } })).arrayBuffer(),
    );
    pages.push(page);
    address = (JSON.parse(page.toString()) as { next: string | null }).next;
  }
  return pages;
}

const pages = await pagesOf(`${baseUrl}/v1/workbooks`);
const round = (): number =>
  pages.reduce(
    (rows, page) => rows + (JSON.parse(page.toString()) as { results: unknown[] }).results.length,
    0,
  );
round();
const before = process.cpuUsage();
for (let done = 0; done < Number(times); done += 1) round();
const { user, system } = process.cpuUsage(before);
process.stdout.write(`${(user + system) / 1000 / Number(times)}\n`);
