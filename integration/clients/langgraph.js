import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { ChatOpenAI } from '@langchain/openai';

// Tools of Placet, and a model: on Chat Completions, or on Responses.
export async function connect({ mcp, models, token, model, useResponsesApi = false }) {
	const client = new MultiServerMCPClient({
		mcpServers: { placet: { url: mcp, headers: { Authorization: `Bearer ${token}` }, automaticSSEFallback: false } },
	});
	return {
		client,
		tools: await client.getTools(),
		model: new ChatOpenAI({ model, useResponsesApi, apiKey: token, configuration: { baseURL: `${models}/openai/v1` } }),
	};
}
