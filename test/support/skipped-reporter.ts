import type { Reporter, TestModule, Vitest } from 'vitest/node';

/** Lists skipped tests at the end of a run; their titles give the reason. */
export default class SkippedReporter implements Reporter {
  #vitest: Vitest | null = null;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    // With `-t`, all other tests are skipped.
    if (this.#vitest?.config.testNamePattern !== undefined) return;
    const skipped = modules.flatMap((module) =>
      [...module.children.allTests('skipped')].map(
        ({ fullName }) => `  ${module.relativeModuleId}: ${fullName}\n`,
      ),
    );
    if (skipped.length === 0) return;
    process.stdout.write(
      `Not tried here, as what they need is missing (${skipped.length}):\n${skipped.join('')}`,
    );
  }
}
