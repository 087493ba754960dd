/** Why a text cannot name a target as `REPOSITORY/BRANCH`; undefined if it can. */
export function targetProblem(text: string): string | undefined {
  const slash = text.lastIndexOf('/');
  const repository = text.slice(0, Math.max(slash, 0));
  const branch = text.slice(slash + 1);
  if (repository === '' || branch === '') return 'expected REPOSITORY/BRANCH, such as Accounting/main';
  // A Git branch cannot have these in its name (git-check-ref-format), so they can only be meant as a pattern.
  if (/[*?[]/.test(branch)) return 'expected a pattern in the repository part only';
  if (!isPercentEncoded(branch))
    return 'expected a branch in which "%" is followed by two hexadecimal digits';
  return undefined;
}

function isPercentEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
