"""What becomes of every field of the configuration files beside weights: obeyed, irrelevant, or
refused.

A field that nobody looks at is a wrong audit that nobody sees. So each file has a table here,
`docs/inputs.md` prints it, and tests hold it against the fields that transformers itself writes. A
field that no table knows is named to the reader (`unread`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.core.errors import Fault
from engine.core.types import Values

OBEYED, IRRELEVANT, REFUSED = "obeyed", "irrelevant", "refused"


@dataclass(frozen=True)
class Fate:
    """What becomes of one field. why: by whom it is obeyed, why it changes no number, or what to do
    about a refusal.

    asks_nothing: of a refused field, the values with which it asks for nothing.
    """

    kind: str
    why: str
    asks_nothing: tuple[Any, ...] = (None, False)


def obeyed(why: str) -> Fate:
    """transformers or this project does what the field says."""
    return Fate(OBEYED, why)


def irrelevant(why: str) -> Fate:
    """No number hangs on the field, because of `why`."""
    return Fate(IRRELEVANT, why)


def refused(fix: str, *asks_nothing: Any) -> Fate:
    """Any value but None, False and those given is refused; `fix` says what to do."""
    return Fate(REFUSED, fix, (None, False, *asks_nothing))


def _fates(*rows: tuple[Fate, str]) -> dict[str, Fate]:
    """A table by field, from rows of a fate and the names of the fields that meet it."""
    return {name: fate for fate, names in rows for name in names.split()}


_ITSELF = obeyed("transformers' own processor makes the picture")
_FOLDED = obeyed(
    "folded into the mean and deviation per colour, and compared with the processor's own output"
)
_IMAGES = _fates(
    (
        _ITSELF,
        """
        image_processor_type feature_extractor_type do_resize size default_to_square
        resample do_center_crop crop_size crop_pct size_divisor do_thumbnail
        do_align_long_axis max_num_patches patch_size
        """,
    ),
    (
        _FOLDED,
        """
        do_rescale rescale_factor rescale_offset do_normalize image_mean image_std
        include_top
        """,
    ),
    (refused("Set do_pad to false, or give a model whose pictures all have one size."), "do_pad"),
    (refused("Give a model that reads red, green, blue."), "do_flip_channel_order"),
    (
        refused("Give a model that reads pictures, not the numbers of their colours."),
        "do_color_quantize",
    ),
    (refused("Set do_pan_and_scan to false."), "do_pan_and_scan"),
    (
        refused("Give a processor that transformers knows itself: code of a model is never run."),
        "auto_map",
    ),
    (
        irrelevant("every picture is red, green, blue before the processor sees it"),
        "do_convert_rgb",
    ),
    (irrelevant("for maps of labels only"), "do_reduce_labels reduce_labels"),
    (
        irrelevant("read only with a field that is refused"),
        """
        pad_size clusters pan_and_scan_min_crop_size pan_and_scan_max_num_crops
        pan_and_scan_min_ratio_to_activate
        """,
    ),
    (
        irrelevant("how numbers are handed over, not what they are"),
        "return_tensors data_format input_data_format device disable_grouping",
    ),
    (
        irrelevant("names and lists for transformers itself"),
        """
        processor_class _processor_class use_fast _valid_processor_keys _name_or_path
        name_or_path transformers_version image_seq_length
        """,
    ),
)

_DRAWING = irrelevant("the audit's request says how texts are drawn")
_PASSES = irrelevant("how passes are made, not what they give")
_NEVER_DRAWN = refused(
    "Take the field out: the audit would measure texts that this model may not write.", [], {}
)
_GENERATION = _fates(
    (obeyed("each of its tokens ends a text, besides the tokenizer's own"), "eos_token_id"),
    (
        _DRAWING,
        """
        do_sample temperature top_k top_p min_p top_h typical_p epsilon_cutoff
        eta_cutoff repetition_penalty encoder_repetition_penalty no_repeat_ngram_size
        encoder_no_repeat_ngram_size num_beams num_beam_groups diversity_penalty
        length_penalty early_stopping penalty_alpha dola_layers max_length
        max_new_tokens min_length min_new_tokens max_time num_return_sequences
        exponential_decay_length_penalty token_healing remove_invalid_values
        renormalize_logits low_memory
        """,
    ),
    (
        _NEVER_DRAWN,
        """
        bad_words_ids suppress_tokens begin_suppress_tokens sequence_bias
        forced_bos_token_id forced_eos_token_id forced_decoder_ids force_words_ids
        constraints stop_strings watermarking_config
        """,
    ),
    (
        refused("Take the field out: texts are drawn from one pass, without guidance.", 1, 1.0),
        "guidance_scale",
    ),
    (irrelevant("the tokenizer says what begins and fills a text"), "bos_token_id pad_token_id"),
    (irrelevant("for models in two halves, which are refused"), "decoder_start_token_id"),
    (
        _PASSES,
        """
        use_cache cache_implementation cache_config max_cache_len compile_config
        disable_compile prefill_chunk_size continuous_batching_config
        prompt_lookup_num_tokens max_matching_ngram_size assistant_confidence_threshold
        assistant_early_exit assistant_ensemble_weight assistant_lookbehind
        target_lookbehind num_assistant_tokens num_assistant_tokens_schedule
        is_assistant speculation_type use_mtp output_attentions output_hidden_states
        output_logits output_scores return_dict_in_generate
        """,
    ),
    (
        irrelevant("names for transformers itself"),
        "transformers_version _from_model_config trust_remote_code",
    ),
)
_TOKENS = obeyed("transformers' own tokenizer makes and reads the tokens")
_TOKENIZER = _fates(
    (
        _TOKENS,
        """
        tokenizer_class backend bos_token eos_token unk_token sep_token pad_token
        cls_token mask_token additional_special_tokens extra_special_tokens
        model_specific_special_tokens added_tokens_decoder add_prefix_space
        do_lower_case do_basic_tokenize never_split strip_accents tokenize_chinese_chars
        keep_accents remove_space trim_offsets normalization legacy legacy_behaviour
        sp_model_kwargs split_special_tokens fix_mistral_regex vocab_file merges_file
        tokenizer_file clean_up_tokenization_spaces spaces_between_special_tokens
        clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output
        add_bos_token errors unk_id from_slow tokenizer_truncation tokenizer_padding
        word_tokenizer_type subword_tokenizer_type split_by_punct vocab_type
        sentencepiece_model_file
        """,
    ),
    (
        obeyed("the end that it appends to a prompt is taken off before the prompt is continued"),
        "add_eos_token",
    ),
    (
        obeyed("for classifiers; the request cuts the prompts of a language model"),
        "truncation_side",
    ),
    (irrelevant("padding is masked out, on whichever side a pass wants it"), "padding_side"),
    (
        obeyed("for classifiers; config.json and the request limit a language model's texts"),
        "model_max_length max_len",
    ),
    (
        obeyed("with --chat every prompt stands in it, as a user's turn; else a note names it"),
        "chat_template",
    ),
    (
        irrelevant("answers are read as plain texts"),
        """
        response_template response_schema chat_control_tokens
        use_default_system_prompt
        """,
    ),
    (
        irrelevant("every call sets it itself"),
        """
        padding max_length stride truncation truncation_strategy pad_to_multiple_of
        pad_token_type_id model_input_names token_type_ids_pattern
        token_type_ids_include_special_tokens special_tokens_pattern
        """,
    ),
    (irrelevant("code of a model is never run; a note says that it has some"), "auto_map"),
    (
        irrelevant("names for transformers itself"),
        """
        name_or_path _name_or_path processor_class _processor_class
        special_tokens_map_file tokenizer_version is_local local_files_only init_inputs
        files_loaded use_fast verbose _commit_hash transformers_version version
        device_map dtype torch_dtype token revision
        """,
    ),
)
_MERGE = (
    "Merge the adapter into its model (peft: merge_and_unload, then save_pretrained) and give that"
    " folder."
)
_LORA = _fates(
    (refused(_MERGE), "peft_type"),
    (
        irrelevant("read only with peft_type, which is refused"),
        """
        base_model_name_or_path revision task_type inference_mode auto_mapping
        peft_version r lora_alpha lora_dropout lora_bias target_modules exclude_modules
        target_parameters modules_to_save trainable_token_indices fan_in_fan_out bias
        use_rslora use_dora use_qalora init_lora_weights layers_to_transform
        layers_pattern layer_replication rank_pattern alpha_pattern megatron_config
        megatron_core loftq_config eva_config corda_config arrow_config
        alora_invocation_tokens ensure_weight_tying qalora_group_size
        """,
    ),
)
_FAMILY = obeyed("transformers' class of the family")
_CONFIG = {
    name: fate for name, fate in _GENERATION.items() if name not in ("bos_token_id", "pad_token_id")
} | _fates(
    (
        _FAMILY,
        """
        model_type vocab_size tie_word_embeddings is_decoder bos_token_id pad_token_id
        sep_token_id tokenizer_class
        """,
    ),
    (
        obeyed("they say what an output is, and must agree with each other and the weights"),
        "architectures num_labels id2label label2id problem_type",
    ),
    (
        refused(
            "Give a classifier whose classes exclude each other (softmax). Judges obey it.",
            "softmax",
        ),
        "function_to_apply",
    ),
    (obeyed("a model in two halves is refused"), "is_encoder_decoder"),
    (
        obeyed("such a model is only compared with another, and read with its own package"),
        "quantization_config",
    ),
    (refused("Give the model with the heads still in it.", {}), "pruned_heads"),
    (
        refused("Give a model that reads one text, not what another half made of it."),
        "add_cross_attention tie_encoder_decoder",
    ),
    (
        obeyed("by families that know other kinds than absolute; BERT with another is refused"),
        "position_embedding_type",
    ),
    (refused("Put the prefix into the prompts or texts themselves.", ""), "prefix"),
    (
        irrelevant("the request says in which precision weights are loaded"),
        "dtype torch_dtype use_bfloat16",
    ),
    (irrelevant("code of a model is never run; a note says that it has some"), "auto_map"),
    (
        obeyed(
            "what makes probabilities of outputs: judges take sigmoid or softmax, classifiers"
            " softmax only"
        ),
        "sbert_ce_default_activation_function sentence_transformers",
    ),
    (irrelevant("for models in two halves, which are refused"), "cross_attention_hidden_size"),
    (
        _PASSES,
        """
        return_dict chunk_size_feed_forward torchscript attn_implementation
        _attn_implementation attn_implementation_autoset _attn_implementation_autoset
        _flash_attn_2_enabled gradient_checkpointing use_reentrant tf_legacy_loss
        """,
    ),
    (irrelevant("for other tasks, or their names"), "task_specific_params finetuning_task"),
    (irrelevant("an older name of n_positions"), "n_ctx"),
    (irrelevant("the tokenizer says them"), "unk_token_id cls_token_id mask_token_id"),
    (
        irrelevant("names for transformers itself"),
        """
        _name_or_path _model_name_or_path name_or_path transformers_version
        unsloth_version unsloth_fixed
        """,
    ),
)

FIELDS: dict[str, dict[str, Fate]] = {
    "preprocessor_config.json": _IMAGES,
    "generation_config.json": _GENERATION,
    "tokenizer_config.json": _TOKENIZER,
    "adapter_config.json": _LORA,
    "config.json": _CONFIG,
}
"""By file, then by field. Of config.json only what every family shares; the rest belongs to
transformers' own class."""


def refusals(file: str, said: Values, where: str) -> list[Fault]:
    """A fault for every refused field of `file` that asks for something. where: how the file is
    named to the reader."""
    fates = FIELDS[file]
    return [
        Fault(
            where, f"sets {name} to {str(value)[:60]!r}, which is not obeyed here.", fates[name].why
        )
        for name, value in said.items()
        if name in fates and fates[name].kind == REFUSED and not _asks_nothing(value, fates[name])
    ]


def unread(file: str, said: Values) -> list[str]:
    """Names of fields that the file has and its table does not, sorted."""
    return sorted(str(name) for name in said if name not in FIELDS[file])


def _asks_nothing(value: Any, fate: Fate) -> bool:
    return any(
        value is one or (type(value) is type(one) and value == one) for one in fate.asks_nothing
    )
