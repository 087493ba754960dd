import type { Reporter, TestModule } from 'vitest/node';

/** Says at the end of a run what was not tried; the titles say why. */
export default class SkippedReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
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
