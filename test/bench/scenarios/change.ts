import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import type { Bench } from '../bench.ts';
import { compare, type Contender } from '../compare.ts';
import type { BenchFile } from '../data-set.ts';
import { fewLarge } from '../data-sets.ts';
import { type GitHost, hostGit } from '../git.ts';
import { bash, measureFlushed, script } from '../peers.ts';
import { pullerOf } from '../pull.ts';
import type { Scenario } from '../scenario.ts';
import { sizeText } from '../table.ts';
import { missingOf } from '../tools.ts';
import { writeTree } from '../tree.ts';

const NEAR_BYTES = 2_100_000;

/** One workbook of about 2 MB changes in a repository of 2 GiB. */
export const change: Scenario = {
  name: 'change',
  about: 'one workbook of many changes',
  run: async function* run(bench) {
    const [dropped, inGit] = [fewLarge(bench), fewLarge(bench, 'git')];
    const services = [await bench.serve(dropped), await bench.serve(inGit)] as const;
    const file = nearest(services[0].repositories[0]?.files ?? []);
    const fileInGit = services[1].repositories[0]?.files.find(({ path }) => path === file.path) ?? file;
    const tree = await bench.treeOf(dropped, 0);
    const host = missingOf(['git']) === null ? await hostGit(bench, dropped) : null;
    const contenders = [
      ...(await pullers(bench, services, file, fileInGit)),
      ...(await peers(bench, services[0], tree, host)),
    ];
    const rows = await compare(bench, contenders, async () => {
      await Promise.all(services.map((service) => service.change(0, [file.path])));
      await writeTree(tree, [file]);
      await host?.commit(0);
    });
    yield {
      title: `Change of one workbook of ${sizeText(file.sizeBytes)} among ${services[0].repositories[0]?.files.length ?? 0} (${dropped.name})`,
      rows,
      base: rows[0]?.contender ?? '',
      notes: [
        'Ours: a running daemon, from SIGHUP to the log line target.pulled, both lists included; memory: the most since it began.',
        'git fetches from `git daemon`; rclone compares with an unpacked tree on the same disk. Both change the mirror in place.',
      ],
    };
  },
};

/** The file whose size is nearest to 2 MB. */
function nearest(files: readonly BenchFile[]): BenchFile {
  const [first] = [...files].sort(
    (a, b) => Math.abs(a.sizeBytes - NEAR_BYTES) - Math.abs(b.sizeBytes - NEAR_BYTES),
  );
  if (first === undefined) throw new RangeError('there is no file');
  return first;
}

type Services = readonly [Awaited<ReturnType<Bench['serve']>>, Awaited<ReturnType<Bench['serve']>>];

async function pullers(
  bench: Bench,
  [dropped, inGit]: Services,
  file: BenchFile,
  fileInGit: BenchFile,
): Promise<Contender[]> {
  const known = (): readonly BenchFile[] => [file];
  const knownInGit = (): readonly BenchFile[] => [fileInGit];
  const facts = (hasFileFacts: boolean) => () => dropped.set({ hasFileFacts });
  return [
    await pullerOf(bench, 'workbook-mirror, with digests in the list', dropped, known, {}, facts(true)),
    await pullerOf(bench, 'workbook-mirror, without digests', dropped, known, {}, facts(false)),
    await pullerOf(bench, 'workbook-mirror, Git repository, content: auto', inGit, knownInGit),
    await pullerOf(bench, 'workbook-mirror, Git repository, content: workbooks', inGit, knownInGit, {
      CONTENT: 'workbooks',
    }),
  ];
}

async function peers(
  bench: Bench,
  service: Services[0],
  tree: string,
  host: GitHost | null,
): Promise<Contender[]> {
  const [byScript, byGit, byRclone] = await Promise.all([
    bench.place('script'),
    bench.place('git'),
    bench.place('rclone'),
  ]);
  await mkdir(byRclone);
  const fetch = (): ReturnType<typeof bash> =>
    bash('git-mirror.sh', host?.address ?? '', byGit, ...(host?.names ?? []));
  const copy = (): ReturnType<typeof measureFlushed> =>
    measureFlushed({ program: 'rclone', args: ['--config', '/dev/null', 'sync', tree, byRclone] }, byRclone);
  const contenders: Contender[] = [
    {
      name: 'script: curl | bsdtar, sync -f',
      needs: ['bash', 'curl', 'jq', 'bsdtar'],
      run: async () => {
        const { sentBytes } = await service.traffic();
        const sample = await script(service, byScript, 'stream', true);
        const wireBytes = (await service.traffic()).sentBytes - sentBytes;
        return { ...sample, more: { 'on the wire bytes': wireBytes } };
      },
      after: () => bench.empty(join(byScript, 'new')),
    },
    { name: 'git fetch and reset --hard, not flushed', needs: ['bash', 'git'], run: fetch },
    { name: 'rclone sync of an unpacked local tree, sync -f', needs: ['rclone'], run: copy },
  ];
  return contenders;
}
