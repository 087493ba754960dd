import { parseAst } from 'rolldown/parseAst';

/** One change of one operator or condition. */
export interface Mutation {
  /** The characters that are replaced: from the first up to, not including, the last. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

const OTHER_OPERATORS: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '&&': '||',
  '||': '&&',
};

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value;
}

/** Lists the operators and conditions of a module, each with what it is changed to. @throws Error where it cannot be parsed */
export function mutationsOf(source: string): Mutation[] {
  const found: Mutation[] = [];
  const visit = (node: Node): void => {
    found.push(...mutationsAt(node, source));
    for (const value of Object.values(node))
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child);
  };
  visit(parseAst(source, { lang: 'ts' }) as unknown as Node);
  return found;
}

function mutationsAt(node: Node, source: string): Mutation[] {
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression': {
      return operatorOf(node, source);
    }
    case 'UnaryExpression': {
      return node['operator'] === '!' ? [{ start: node.start, end: node.start + 1, text: '' }] : [];
    }
    case 'IfStatement':
    case 'WhileStatement':
    case 'ConditionalExpression': {
      return negated(node['test'] as Node, source);
    }
    default: {
      return [];
    }
  }
}

function operatorOf({ operator, left, right }: Node, source: string): Mutation[] {
  const text = OTHER_OPERATORS[String(operator)];
  // Texts are put together by +: without it there is no program.
  if (
    text === undefined ||
    (operator === '+' && /['"`]/.test(source.slice((left as Node).start, (right as Node).end)))
  )
    return [];
  const start = source.indexOf(String(operator), (left as Node).end);
  if (start < 0 || start >= (right as Node).start) throw new Error(`no ${String(operator)} at ${start}`);
  return [{ start, end: start + String(operator).length, text }];
}

/** Conditions whose operator is a place of its own are not negated as well. */
function negated({ type, operator, start, end }: Node, source: string): Mutation[] {
  const hasOwnPlace =
    (type === 'BinaryExpression' && String(operator) in OTHER_OPERATORS) || type === 'UnaryExpression';
  return hasOwnPlace ? [] : [{ start, end, text: `!(${source.slice(start, end)})` }];
}
