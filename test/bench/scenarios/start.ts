import { compare } from '../compare.ts';
import { dataSet } from '../data-set.ts';
import { measure } from '../measure.ts';
import { runProgram } from '../program.ts';
import type { Scenario } from '../scenario.ts';

const NODE = 'node -e 0';
/** A start takes little: more runs than elsewhere cost nothing. */
const RUNS_EACH = 3;

/** How long commands take that do next to nothing. */
export const start: Scenario = {
  name: 'start',
  about: 'commands that do next to nothing, and status on many targets',
  run: async function* run(bench) {
    const repositories = bench.options.isQuick ? 50 : 10_000;
    const spec = dataSet(`${repositories} small repositories`, {
      repositories,
      leastBytes: 60,
      mostBytes: 200,
      packings: ['stored'],
    });
    const service = await bench.serve(spec);
    const directory = await bench.place('mirrored');
    bench.say(`making the first mirror of ${repositories} targets`);
    await runProgram(bench, ['sync', '--quiet'], { service, directory });
    const commands = [
      ['--version'],
      ['--help'],
      ['status', '--help'],
      ['status'],
      ['status', '--json'],
    ] as const;
    const rows = await compare(
      bench,
      [
        { name: NODE, run: () => measure({ program: process.execPath, args: ['-e', '0'] }) },
        ...commands.map((args) => ({
          name:
            args[0] === 'status' && args[1] !== '--help'
              ? `${args.join(' ')}, ${repositories} targets`
              : args.join(' '),
          run: () => runProgram(bench, args, { service, directory }),
        })),
      ],
      undefined,
      bench.options.runs * RUNS_EACH,
    );
    yield { title: 'Start', rows, base: NODE };
  },
};
