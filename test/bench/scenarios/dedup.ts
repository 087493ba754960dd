import { join } from 'node:path';

import { compare } from '../compare.ts';
import { dataSet } from '../data-set.ts';
import { measure } from '../measure.ts';
import { runProgram } from '../program.ts';
import type { Scenario } from '../scenario.ts';
import { sizeText } from '../table.ts';
import { sizeOfTree } from '../tree.ts';

const REPOSITORIES = 3;

/** The same workbooks on many branches and in several repositories. */
export const dedup: Scenario = {
  name: 'dedup',
  about: 'the same workbooks on many branches and in several repositories',
  run: async function* run(bench) {
    const branches = Array.from({ length: bench.options.isQuick ? 3 : 10 }, (_, index) =>
      index === 0 ? 'main' : `draft-${index}`,
    );
    const spec = dataSet('same workbooks', {
      repositories: REPOSITORIES,
      branches,
      filesEach: bench.options.isQuick ? 20 : 200,
      leastBytes: 50_000,
      mostBytes: 500_000,
      packings: ['wrapped'],
      sameFiles: true,
    });
    const service = await bench.serve(spec);
    const contender = (name: string, variables: Readonly<Record<string, string>>) => ({
      name,
      run: async () => {
        const directory = await bench.place('mirrored');
        const sample = await runProgram(bench, ['sync'], { service, directory }, variables);
        const mirror = join(directory, 'mirror');
        const { sizeBytes } = await sizeOfTree(mirror);
        const onDiskBytes = await diskBytesOf(mirror);
        await bench.empty(directory);
        return { ...sample, more: { 'in all bytes': sizeBytes, 'on disk (du) bytes': onDiskBytes } };
      },
    });
    const rows = await compare(bench, [
      contender('workbook-mirror', {}),
      contender('workbook-mirror, dedup: off', { DEDUP: 'off' }),
    ]);
    const once = service.repositories[0]?.files.reduce((sum, file) => sum + file.sizeBytes, 0) ?? 0;
    yield {
      title: `The same ${spec.filesEach} workbooks (${sizeText(once)}) on ${branches.length} branches in ${REPOSITORIES} repositories`,
      rows,
      notes: [
        'du counts a file with several hard links once, and clones (reflink) as if they shared nothing.',
      ],
    };
  },
};

async function diskBytesOf(folder: string): Promise<number> {
  const { stdout } = await measure({ program: 'du', args: ['-s', '--block-size=1', folder] });
  return Number.parseInt(stdout, 10);
}
