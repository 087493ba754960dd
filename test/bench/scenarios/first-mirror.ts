import { join } from 'node:path';

import { counted } from '../../../src/lib/text/humanize.ts';
import { type Bench, empty, listFiles } from '../bench.ts';
import { dataSet, type DataSet } from '../data.ts';
import { compare, type Contender, ContenderError, measure, type Sample, type Tool } from '../measure.ts';
import { bash, peer } from '../peers.ts';
import { runProgram } from '../program.ts';
import { OURS, sizeText, type Table } from '../table.ts';

const MIB = 1024 * 1024;

/** D2: one repository of 500 workbooks, 2 GiB of incompressible data. */
export function fewLarge({ options: { isQuick } }: Bench, isGit = false): DataSet {
  return dataSet(isGit ? 'D2 in Git' : 'D2', {
    filesEach: isQuick ? 25 : 500,
    leastBytes: 2 * MIB,
    mostBytes: 12 * MIB,
    isCompressible: false,
    isGit,
  });
}

/** The first mirror of a data set, from nothing. */
export async function* firstMirror(bench: Bench): AsyncGenerator<Table> {
  // D1: 8 repositories of 15,000 files, 100 MB of archives in all.
  yield await mirrorOf(
    bench,
    dataSet('D1', { repositories: 8, filesEach: bench.options.isQuick ? 100 : 1875 }),
  );
  yield await mirrorOf(bench, fewLarge(bench));
}

async function mirrorOf(bench: Bench, data: DataSet): Promise<Table> {
  const service = await bench.serve(data);
  const count = service.files.length * data.repositories;
  const sizeBytes = service.files.reduce((sum, file) => sum + file.sizeBytes, 0) * data.repositories;
  /** A contender that starts from an empty folder each time; its files are counted. */
  const fresh = (
    name: string,
    tree: string,
    needs: readonly Tool[],
    run: (directory: string) => Promise<Sample>,
  ): Contender => {
    let directory = '';
    return {
      name,
      needs,
      run: async () => run((directory = await bench.place('mirrored'))),
      after: async () => {
        const files = await listFiles(join(directory, tree));
        const madeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
        if (files.length !== count || madeBytes !== sizeBytes)
          throw new ContenderError(`${name} made ${files.length} files of ${madeBytes} bytes`);
        await empty(directory);
      },
    };
  };
  const script = (name: string, ...flush: readonly string[]): Contender =>
    fresh(name, 'mirror', ['curl', 'jq', 'bsdtar'], (directory) =>
      bash('mirror.sh', service.baseUrl, directory, ...flush),
    );
  const input = JSON.stringify(
    Array.from({ length: data.repositories }, (_, at) =>
      service.files.map((file) => [`${at}/${file.path}`, file.sizeBytes]),
    ).flat(),
  );
  const rows = await compare(bench.options.runs, [
    fresh(OURS, 'mirror', [], (directory) => runProgram(bench, ['sync'], { service, directory })),
    script('script: curl | bsdtar, sync -f', 'flush'),
    script('script: curl | bsdtar, not flushed'),
    {
      name: 'limit: download to nowhere (curl)',
      needs: ['curl', 'jq'],
      run: () => bash('download.sh', service.baseUrl),
    },
    fresh('limit: write the files from memory, flushed', '', [], async (directory) => {
      const args = [peer('write-files.ts'), directory];
      const { stdout } = await measure({ program: process.execPath, args, input });
      return { wallMs: Number(stdout), cpuMs: null, peakBytes: null };
    }),
  ]);
  return {
    title: `First mirror of ${data.name}: ${count} files of ${sizeText(sizeBytes)} in ${counted(data.repositories, 'repository', 'repositories')}`,
    rows,
    notes: [
      'Ours includes its flush (what it reports is safe from a power cut), digests, manifests and checks of every CRC-32.',
    ],
  };
}
