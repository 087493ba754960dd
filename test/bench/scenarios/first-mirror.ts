import { join } from 'node:path';

import type { Bench } from '../bench.ts';
import { compare, type Contender, type Measured } from '../compare.ts';
import type { BenchFile, DataSetSpec } from '../data-set.ts';
import { fewLarge, manySmall } from '../data-sets.ts';
import { startEmbedded } from '../embedded.ts';
import { hostGit } from '../git.ts';
import { ContenderError, type Sample } from '../measure.ts';
import { bash, measureFlushed, script, type ScriptMethod, writeFromMemory } from '../peers.ts';
import { runProgram } from '../program.ts';
import type { Scenario } from '../scenario.ts';
import type { BenchService } from '../service.ts';
import { sizeText, type Table } from '../table.ts';
import { missingOf, type Tool } from '../tools.ts';
import { sizeOfTree } from '../tree.ts';

const DOWNLOAD = 'limit: download to nowhere (curl)';
const WRITE = 'limit: write the files from memory, flushed';

/** The first mirror of a data set, from nothing. */
export const firstMirror: Scenario = {
  name: 'first-mirror',
  about: 'the first mirror of many small and of few large files',
  run: async function* run(bench) {
    yield await mirrorOf(bench, manySmall(bench));
    yield await mirrorOf(bench, fewLarge(bench));
  },
};

/** What is to be mirrored, and by whom. */
interface Setting {
  readonly bench: Bench;
  readonly spec: DataSetSpec;
  readonly service: BenchService;
  readonly files: readonly BenchFile[];
  readonly sizeBytes: number;
}

async function mirrorOf(bench: Bench, spec: DataSetSpec): Promise<Table> {
  const service = await bench.serve(spec);
  const files = service.repositories.flatMap((repository) => repository.files);
  const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const setting = { bench, spec, service, files, sizeBytes };
  const rows = await compare(bench, [
    fresh(setting, 'workbook-mirror', 'mirror', (directory) =>
      runProgram(bench, ['sync'], { service, directory }),
    ),
    ...scripts(setting),
    ...(await gitPeers(setting)),
    ...(await rclonePeers(setting)),
    {
      name: DOWNLOAD,
      needs: ['bash', 'curl', 'jq'],
      run: () => bash('download.sh', service.baseUrl),
    },
    fresh(setting, WRITE, '', (directory) => writeFromMemory(directory, files.map(inOwnFolder(service)))),
  ]);
  return {
    title: `First mirror of ${spec.name}: ${files.length} files of ${sizeText(sizeBytes)} in ${plural(spec.repositories)}`,
    rows: [...rows, ...limits(rows)],
    notes: [
      'Ours includes its flush (what it reports is safe from a power cut), digests, manifests and checks of every CRC-32.',
      'Git: the same content in bare repositories; git: bare clone from `git daemon` and a checkout. rclone: copies a tree that lies unpacked on the same disk.',
    ],
  };
}

function plural(repositories: number): string {
  return repositories === 1 ? 'one repository' : `${repositories} repositories`;
}

/** Files of several repositories have the same paths: each repository gets a folder of its own. */
function inOwnFolder({ repositories }: BenchService): (file: BenchFile) => BenchFile {
  const folderOf = new Map(
    repositories.flatMap(({ files }, at) => files.map((file) => [file, String(at)] as const)),
  );
  return (file) => ({ ...file, path: `${folderOf.get(file) ?? ''}/${file.path}` });
}

/** A contender that starts from an empty folder each time; what it made is counted. */
function fresh(
  { bench, files, sizeBytes }: Setting,
  name: string,
  tree: string,
  run: (directory: string) => Promise<Sample>,
  needs: readonly Tool[] = [],
): Contender {
  let directory = '';
  return {
    name,
    needs,
    run: async () => {
      directory = await bench.place('mirrored');
      return run(directory);
    },
    after: async () => {
      const found = await sizeOfTree(join(directory, tree));
      if (found.files !== files.length || found.sizeBytes !== sizeBytes) {
        throw new ContenderError(
          `${name} made ${found.files} files of ${found.sizeBytes} bytes, not ${files.length} of ${sizeBytes}`,
        );
      }
      await bench.empty(directory);
    },
  };
}

function scripts(setting: Setting): Contender[] {
  const methods: ReadonlyArray<readonly [ScriptMethod, boolean, string]> = [
    ['stream', true, 'script: curl | bsdtar, sync -f'],
    ['stream', false, 'script: curl | bsdtar, not flushed'],
    ['file', true, 'script: curl, then bsdtar, sync -f'],
    ['unzip', true, 'script: curl, then unzip, sync -f'],
  ];
  return methods.map(([method, isFlushed, name]) =>
    fresh(setting, name, 'mirror', (directory) => script(setting.service, directory, method, isFlushed), [
      'bash',
      'curl',
      'jq',
      method === 'unzip' ? 'unzip' : 'bsdtar',
    ]),
  );
}

async function gitPeers(setting: Setting): Promise<Contender[]> {
  const name = 'git clone --mirror and checkout, sync -f';
  if (missingOf(['git', 'bash']) !== null) return [fresh(setting, name, '', unable, ['git', 'bash'])];
  const { bench, files } = setting;
  const host = await hostGit(bench, setting.spec);
  const { address, names } = host;
  // A service that does not start fails as a row, not as the whole table.
  const embedded = await startEmbedded(bench, host, files.length).catch((error: unknown) => {
    if (error instanceof ContenderError) return error;
    throw error;
  });
  return [
    fresh(setting, 'workbook-mirror, from its embedded service on Git', 'mirror', (directory) => {
      if (embedded instanceof ContenderError) throw embedded;
      return runProgram(bench, ['sync'], { service: embedded, directory });
    }),
    fresh(setting, name, 'mirror', async (directory) => {
      const cloned = await bash('git-mirror.sh', address, directory, ...names);
      const flushed = await measureFlushed({ program: 'true', args: [] }, directory);
      return { ...cloned, wallMs: cloned.wallMs + flushed.wallMs };
    }),
  ];
}

async function rclonePeers(setting: Setting): Promise<Contender[]> {
  const { bench, spec, service } = setting;
  const name = 'rclone sync of an unpacked local tree, sync -f';
  if (missingOf(['rclone']) !== null) return [fresh(setting, name, '', unable, ['rclone'])];
  const trees = await Promise.all(service.repositories.map((_, at) => bench.treeOf(spec, at)));
  return [
    fresh(setting, name, '', (directory) =>
      measureFlushed(
        {
          program: 'rclone',
          args: ['--config', '/dev/null', 'sync', join(trees[0] ?? '', '..'), directory],
        },
        directory,
      ),
    ),
  ];
}

function unable(): Promise<Sample> {
  throw new ContenderError('what is missing cannot be run');
}

/** What downloading and writing take together, one after the other and, at best, at once. */
function limits(rows: readonly Measured[]): Measured[] {
  const download = rows.find(({ contender }) => contender === DOWNLOAD)?.samples ?? [];
  const write = rows.find(({ contender }) => contender === WRITE)?.samples ?? [];
  const both = (name: string, combine: (one: number, other: number) => number): Measured => ({
    contender: name,
    samples: download.slice(0, write.length).map(({ wallMs }, index) => ({
      wallMs: combine(wallMs, write[index]?.wallMs ?? NaN),
      cpuMs: null,
      peakBytes: null,
    })),
  });
  return [
    both('limit: both, one after the other', (one, other) => one + other),
    both('limit: the greater of both', (one, other) => Math.max(one, other)),
  ];
}
