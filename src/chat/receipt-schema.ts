import { type Static, Type } from '@sinclair/typebox'
import { Message } from '../openai/completion-request.ts'

/** The prompt that a model would get, and how it was composed. */
export const PromptReceipt = Type.Object(
  {
    object: Type.Literal('chat.prompt'),
    model: Type.String(),
    character: Type.Union([Type.String(), Type.Null()], {
      description: "The character's name, and the digest of its card.",
    }),
    messages: Type.Array(Message, { description: 'The messages that the model would get.' }),
    tokens: Type.Object({
      total: Type.Integer(),
      exact: Type.Boolean({ description: "Whether the count used the model's own tokenizer." }),
      sections: Type.Array(Type.Object({ section: Type.String(), tokens: Type.Integer() })),
    }),
    lore: Type.Array(
      Type.Object({
        entry: Type.String(),
        book: Type.String(),
        fired: Type.Boolean(),
        keys: Type.Optional(Type.Array(Type.String())),
        tokens: Type.Integer(),
        dropped: Type.Optional(
          Type.String({
            description:
              'The reason why the entry is not in the prompt: probability, group, position, limit, budget or context.',
          }),
        ),
      }),
    ),
    dropped: Type.Object({ lore: Type.Integer(), examples: Type.Integer(), messages: Type.Integer() }),
    unknown_macros: Type.Array(Type.String(), {
      description:
        'Macros that the service does not know. If the caller may not read the card, only those in `persona` and `author_note`.',
    }),
    refused_regexes: Type.Array(Type.String(), {
      description: "Regular expressions of the request's `lorebooks` that never match here.",
    }),
  },
  { title: 'PromptReceipt' },
)
export type PromptReceipt = Static<typeof PromptReceipt>
