import { createAnthropic } from '@ai-sdk/anthropic';
import { createMCPClient } from '@ai-sdk/mcp';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

// Tools of Placet, and models: Chat Completions, Responses and Messages.
export async function connect({ mcp, models, token }) {
	const client = await createMCPClient({
		transport: { type: 'http', url: mcp, headers: { Authorization: `Bearer ${token}` } },
	});
	return {
		client,
		tools: await client.tools(),
		chat: createOpenAICompatible({ name: 'placet', baseURL: `${models}/openai/v1`, apiKey: token }),
		responses: createOpenAI({ baseURL: `${models}/openai/v1`, apiKey: token }),
		messages: createAnthropic({ baseURL: `${models}/anthropic/v1`, apiKey: token }),
	};
}
