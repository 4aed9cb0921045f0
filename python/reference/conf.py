"""Settings of the reference: of the installed package, in a plain theme."""

project = "Anabranch for Python"
extensions = ["sphinx.ext.autodoc"]
html_theme = "alabaster"
html_theme_options = {"description": "Data streams over several unreliable network paths, with promises", "page_width": "1100px"}
html_show_copyright = False
html_show_sourcelink = False

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# The extension module's texts are those of the package.
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
