// A model provider that says what a test tells it to say: OpenAI Chat Completions and Responses
// and Anthropic Messages, streamed or whole. A test's conversations are told apart by the name of
// the model that they ask for.
import { createServer } from 'node:http';

let count = 0;
const id = (prefix) => `${prefix}_${String(++count).padStart(8, '0')}`;

export class Provider {
	#scripts = new Map();
	#asked = new Map();
	#server;

	// script says what the model answers, one turn for each request: {text}, {calls: [{name,
	// arguments}]} or both, or {status} for an error. With cut a stream ends behind the calls, before it says so.
	script(model, ...turns) {
		this.#scripts.set(model, turns);
		this.#asked.set(model, []);
	}

	// asked are the requests for answers that came for a model, as they were sent.
	asked(model) {
		return this.#asked.get(model) ?? [];
	}

	// left is how much of a script was not asked for.
	left(model) {
		return this.#scripts.get(model)?.length ?? 0;
	}

	async open() {
		this.#server = createServer((request, response) => this.#serve(request, response));
		await new Promise((done) => this.#server.listen(0, '127.0.0.1', done));
		return `http://127.0.0.1:${this.#server.address().port}`;
	}

	close() {
		this.#server.closeAllConnections();
		this.#server.close();
	}

	async #serve(request, response) {
		try {
			const parts = [];
			for await (const part of request) parts.push(part);
			const path = new URL(request.url, 'http://provider').pathname;
			const writer = writers.find(([end]) => path.endsWith(end))?.[1];
			if (request.method !== 'POST' || !writer) {
				response.writeHead(404).end();
				return;
			}
			const body = JSON.parse(Buffer.concat(parts).toString());
			const turn = this.#turn(body);
			if (turn.status) {
				response.writeHead(turn.status, { 'content-type': 'application/json', 'retry-after-ms': '1' }).end('{"error":{"type":"overloaded_error","message":"overloaded"}}');
				return;
			}
			writer(response, body, turn);
		} catch (error) {
			response.writeHead(400, { 'content-type': 'application/json' });
			response.end(JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message: String(error.message) } }));
		}
	}

	// #turn takes the next turn of the script. A request that offers no tools is none of the
	// conversation: some clients ask for a title.
	#turn(body) {
		const offered = (body.tools ?? []).map((tool) => tool.function?.name ?? tool.name);
		if (offered.length === 0) return { text: 'ok', calls: [] };
		this.#asked.get(body.model)?.push(body);
		const turn = this.#scripts.get(body.model)?.shift();
		if (!turn) throw new Error(`the script of ${body.model} is at its end`);
		if (turn.status) return turn;
		const calls = (turn.calls ?? []).map((call) => {
			const name = offered.find((tool) => tool === call.name || tool.endsWith(`__${call.name}`));
			if (!name) throw new Error(`${call.name} is not offered: ${offered}`);
			return { id: call.id ?? id('call'), name, text: JSON.stringify(call.arguments) };
		});
		return { text: turn.text ?? '', calls, cut: turn.cut };
	}
}

function whole(response, body) {
	response.writeHead(200, { 'content-type': 'application/json' });
	response.end(JSON.stringify(body));
}

function events(response) {
	response.writeHead(200, { 'content-type': 'text/event-stream' });
	return (data, name) => response.write(`${name ? `event: ${name}\n` : ''}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
}

// halves cuts a text in two, as streams do.
const halves = (text) => [text.slice(0, text.length / 2), text.slice(text.length / 2)];

function chat(response, body, turn) {
	const common = { id: id('chatcmpl'), created: 1700000000, model: body.model };
	const finish_reason = turn.calls.length > 0 ? 'tool_calls' : 'stop';
	const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
	if (!body.stream) {
		const message = { role: 'assistant', content: turn.text || null };
		if (turn.calls.length > 0) message.tool_calls = turn.calls.map((call) => ({ id: call.id, type: 'function', function: { name: call.name, arguments: call.text } }));
		return whole(response, { ...common, object: 'chat.completion', choices: [{ index: 0, message, finish_reason }], usage });
	}
	const send = events(response);
	const chunk = (delta, finish_reason = null) => send({ ...common, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] });
	chunk({ role: 'assistant', content: '' });
	if (turn.text) for (const content of halves(turn.text)) chunk({ content });
	turn.calls.forEach((call, index) => {
		chunk({ tool_calls: [{ index, id: call.id, type: 'function', function: { name: call.name, arguments: '' } }] });
		for (const text of halves(call.text)) chunk({ tool_calls: [{ index, function: { arguments: text } }] });
	});
	if (turn.cut) return response.end();
	chunk({}, finish_reason);
	if (body.stream_options?.include_usage) send({ ...common, object: 'chat.completion.chunk', choices: [], usage });
	send('[DONE]');
	response.end();
}

function responses(response, body, turn) {
	const output = [];
	if (turn.text) output.push({ type: 'message', id: id('msg'), status: 'completed', role: 'assistant', content: [{ type: 'output_text', text: turn.text, annotations: [] }] });
	for (const call of turn.calls) output.push({ type: 'function_call', id: id('fc'), call_id: call.id, name: call.name, arguments: call.text, status: 'completed' });
	const usage = { input_tokens: 1, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 2 };
	const start = { id: id('resp'), object: 'response', created_at: 1700000000, status: 'in_progress', model: body.model, output: [], error: null, incomplete_details: null, parallel_tool_calls: true, tool_choice: 'auto', tools: [], metadata: {} };
	const end = { ...start, status: 'completed', output, usage };
	if (!body.stream) return whole(response, end);
	const write = events(response);
	let sequence_number = 0;
	const send = (type, data) => write({ type, sequence_number: sequence_number++, ...data }, type);
	send('response.created', { response: start });
	output.forEach((item, output_index) => {
		const at = { item_id: item.id, output_index };
		if (item.type === 'message') {
			send('response.output_item.added', { output_index, item: { ...item, status: 'in_progress', content: [] } });
			send('response.content_part.added', { ...at, content_index: 0, part: { type: 'output_text', text: '', annotations: [] } });
			for (const delta of halves(turn.text)) send('response.output_text.delta', { ...at, content_index: 0, delta });
			send('response.output_text.done', { ...at, content_index: 0, text: turn.text });
			send('response.content_part.done', { ...at, content_index: 0, part: item.content[0] });
		} else {
			send('response.output_item.added', { output_index, item: { ...item, status: 'in_progress', arguments: '' } });
			for (const delta of halves(item.arguments)) send('response.function_call_arguments.delta', { ...at, delta });
			send('response.function_call_arguments.done', { ...at, name: item.name, arguments: item.arguments });
		}
		send('response.output_item.done', { output_index, item });
	});
	if (turn.cut) return response.end();
	send('response.completed', { response: end });
	response.end();
}

function messages(response, body, turn) {
	const content = [];
	if (turn.text) content.push({ type: 'text', text: turn.text });
	for (const call of turn.calls) content.push({ type: 'tool_use', id: call.id, name: call.name, input: JSON.parse(call.text) });
	const stop_reason = turn.calls.length > 0 ? 'tool_use' : 'end_turn';
	const usage = { input_tokens: 1, output_tokens: 1 };
	const message = { id: id('msg'), type: 'message', role: 'assistant', model: body.model, content, stop_reason, stop_sequence: null, usage };
	if (!body.stream) return whole(response, message);
	const write = events(response);
	const send = (type, data) => write({ type, ...data }, type);
	send('message_start', { message: { ...message, content: [], stop_reason: null } });
	content.forEach((block, index) => {
		if (block.type === 'text') {
			send('content_block_start', { index, content_block: { type: 'text', text: '' } });
			for (const text of halves(block.text)) send('content_block_delta', { index, delta: { type: 'text_delta', text } });
		} else {
			send('content_block_start', { index, content_block: { ...block, input: {} } });
			for (const partial_json of halves(JSON.stringify(block.input))) send('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json } });
		}
		send('content_block_stop', { index });
	});
	if (turn.cut) return response.end();
	send('message_delta', { delta: { stop_reason, stop_sequence: null }, usage });
	send('message_stop', {});
	response.end();
}

const writers = [
	['/chat/completions', chat],
	['/responses', responses],
	['/messages', messages],
	['/messages/count_tokens', (response) => whole(response, { input_tokens: 1 })],
];
